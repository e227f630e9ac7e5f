//! The OpenAPI document as tools of others read it: a validator finds nothing, and a generated client makes calls.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::support::{Backend, Site};

/// The folder of the tools, if they are installed.
fn tools() -> Option<PathBuf> {
    let Some(tools) = std::env::var_os("WARDROOM_TEST_OPENAPI") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "the OpenAPI tools are not there, and CI does not pass without them: run ./dev test"
        );
        println!("the OpenAPI tools are not there: run ./dev test");
        return None;
    };
    Some(tools.into())
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().expect("a tool cannot be started: run ./dev setup");
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{said}");
    said
}

#[test]
fn the_document_is_valid_and_a_generated_client_works() {
    let Some(tools) = tools() else { return };
    let site = Site::start(Backend::Sqlite);
    let dir = tempfile::tempdir().unwrap();
    let document = dir.path().join("openapi.json");
    std::fs::write(&document, &site.admin().get("/openapi.json").body).unwrap();
    run(Command::new(tools.join("openapi-spec-validator")).arg(&document));
    let said = run(Command::new(tools.join("openapi-python-client"))
        .args(["generate", "--meta", "none", "--output-path"])
        .arg(dir.path().join("client"))
        .arg("--path")
        .arg(&document)
        // It formats with a program from this folder.
        .env("PATH", with_first(&tools))
        .current_dir(dir.path()));
    assert!(!said.contains("Warning") && !said.contains("WARNING"), "something was left out: {said}");
    let calls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/generated/calls.py");
    run(Command::new(tools.join("python"))
        .arg(calls)
        .arg(format!("http://{}", site.servers[0].address))
        .arg(&site.token)
        .env("PYTHONPATH", dir.path())
        .env("PYTHONDONTWRITEBYTECODE", "1"));
}

fn with_first(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(all).unwrap()
}
