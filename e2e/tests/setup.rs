//! `./dev setup` uses the package names of each package manager, and reports an unknown one.
//!
//! The managers are stand-ins that record their arguments.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Output},
};

/// The programs that the script uses, besides those it installs.
const TOOLS: &[&str] = &["bash", "cat", "cp", "dirname", "env", "grep", "mkdir", "readlink", "rm"];

/// Runs the setup on a machine with only a package manager, and returns the requested packages.
fn setup(manager: Option<&str>) -> (Output, String) {
    let dir = tempfile::tempdir().unwrap();
    let (bin, log) = (dir.path().join("bin"), dir.path().join("log"));
    fs::create_dir(&bin).unwrap();
    fs::write(&log, "").unwrap();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../dev"), dir.path().join("dev")).unwrap();
    for tool in TOOLS {
        let path = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
        symlink(path.iter().find(|path| path.exists()).unwrap(), bin.join(tool)).unwrap();
    }
    let program = |name: &str, script: &str| {
        let path = bin.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("cargo", "exit 0");
    program("id", "echo 1000");
    program("sudo", "echo \"$*\" >>\"$LOG\"");
    // Debian packages `venv` apart from Python; other distributions include it.
    program(
        "python3",
        "grep -q python3 \"$LOG\" || exit 1\nmkdir -p \"$3/bin\"\ncp \"${0%/*}/pip\" \"$3/bin/pip\"",
    );
    program("pip", "exit 0");
    program("npm", "grep -q npm \"$LOG\"");
    if let Some(manager) = manager {
        program(manager, "echo asked without root >&2; exit 1");
    }
    let output = Command::new(bin.join("bash"))
        .args(["./dev", "setup"])
        .current_dir(dir.path())
        .env_clear()
        .envs([
            ("PATH", bin.as_os_str()),
            ("LOG", log.as_os_str()),
            ("POSTGRES_FOLDERS", "/nowhere".as_ref()),
        ])
        .output()
        .unwrap();
    (output, fs::read_to_string(log).unwrap())
}

fn check(manager: &str, expected: &[&str]) {
    let (output, asked) = setup(Some(manager));
    assert!(output.status.success(), "{manager}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(asked.lines().collect::<Vec<_>>(), expected, "{manager}");
}

#[test]
fn every_package_manager_is_asked_in_its_own_words() {
    let apt = "env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends";
    let apt = |package: &str| ["apt-get update -qq".to_owned(), format!("{apt} {package}")];
    let cluster = "sed -i s/^#*create_main_cluster.*/create_main_cluster = false/ /etc/postgresql-common/createcluster.conf";
    let mut debian = [apt("curl"), apt("postgresql-common")].concat();
    debian.push(cluster.to_owned());
    let last = ["postgresql", "docker-registry", "python3-venv"];
    let browser = ["chromium", "chromium-driver", "fonts-inter", "npm"];
    debian.extend(last.into_iter().chain(browser).flat_map(apt));
    check("apt-get", &debian.iter().map(|line| &**line).collect::<Vec<_>>());
    check(
        "dnf",
        &[
            "dnf install -y -q curl",
            "dnf install -y -q postgresql-server",
            "dnf install -y -q docker-distribution",
            "dnf install -y -q python3",
            "dnf install -y -q chromium",
            "dnf install -y -q chromedriver",
            "dnf install -y -q rsms-inter-fonts",
            "dnf install -y -q nodejs-npm",
        ],
    );
    check(
        "apk",
        &[
            "apk add -q curl",
            "apk add -q postgresql",
            "apk add -q docker-registry",
            "apk add -q python3",
            "apk add -q chromium",
            "apk add -q chromium-chromedriver",
            "apk add -q font-inter",
            "apk add -q npm",
        ],
    );
}

#[test]
fn a_machine_without_a_known_manager_is_told_what_to_install() {
    let (output, asked) = setup(None);
    assert_eq!((output.status.code(), &*asked), (Some(1), ""));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), "install curl first: there is no apt-get, dnf or apk here");
}
