//! Makes Rust of SPIRE's protocol files. They are read where cargo keeps the sources of the crate that ships
//! them, and are compiled by a compiler that is itself a crate, so that nothing has to be installed.

use std::{env, error::Error, path::PathBuf, process::Command};

/// The crate whose archive carries the files, and where they are in it.
const SHIPPED_BY: &str = "spire-api";
const FOLDER: &str = "spire-api-sdk/proto";

/// A folder to read instead, for whoever builds without cargo's help.
const OVERRIDE: &str = "WARDROOM_SPIRE_PROTOS";

/// What we speak; what these files import comes along.
const FILES: &[&str] = &[
    "spire/api/server/agent/v1/agent.proto",
    "spire/api/server/bundle/v1/bundle.proto",
    "spire/api/server/entry/v1/entry.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    let folder = match env::var_os(OVERRIDE) {
        Some(folder) => PathBuf::from(folder),
        None => shipped()?,
    };
    println!("cargo::rerun-if-changed={}", folder.display());
    let files = protox::compile(FILES, [&folder])
        .map_err(|error| format!("the protocol files in {}: {error}", folder.display()))?;
    tonic_prost_build::configure().include_file("spire.rs").compile_fds(files)?;
    Ok(())
}

/// Asks cargo where the sources are: it knows about registries, mirrors and vendored folders.
///
/// Without the network at first. That fails when only a part of the workspace was ever fetched, as for a build of
/// one package; cargo may then fetch the rest.
fn shipped() -> Result<PathBuf, Box<dyn Error>> {
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    // Another version of the crate is another folder, which only the lock file tells.
    if let Some(root) = metadata["workspace_root"].as_str() {
        println!("cargo::rerun-if-changed={root}/Cargo.lock");
    }
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == SHIPPED_BY);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.ok_or_else(|| format!("cargo metadata does not know {SHIPPED_BY}"))?;
    let folder = PathBuf::from(manifest).with_file_name(FOLDER);
    if folder.is_dir() { Ok(folder) } else { Err(format!("{} is not there", folder.display()).into()) }
}

fn metadata(options: &[&str]) -> Result<serde_json::Value, Box<dyn Error>> {
    let output = Command::new(env::var_os("CARGO").ok_or("CARGO is not set")?)
        // In the folder of the package, so that the configuration of the checkout is found.
        .current_dir(env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform"])
        .arg(env::var_os("HOST").ok_or("HOST is not set")?)
        .args(options)
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
