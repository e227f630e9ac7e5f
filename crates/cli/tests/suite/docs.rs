//! The commands of the pages in `docs`, run as they are written.

use std::{
    io::{BufRead as _, BufReader},
    iter,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::fixture::program;

/// The blocks of a page that a shell runs.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn getting_started_works_as_it_is_written() {
    check(
        "getting-started.md",
        &["kernel http://boot.example/vmlinuz", "looks good", "active", "history is good"],
    );
}

#[test]
fn the_command_line_works_as_it_is_written() {
    check(
        "command-line.md",
        &[
            "as ada (operator); the context is lab",
            "the context lab",
            "context lab is called office now",
            "cluster/east Reconciled=False",
            "node/n1 pending",
            "fleet/kiosks would be deleted",
            "fleet/kiosks deleted",
            "CHANGES/S",
        ],
    );
}

#[test]
fn satellites_work_as_they_are_written() {
    check(
        "satellites.md",
        &[
            "-> revoked",
            "wardroom satellite reenable edge-01",
            "403",
            "refresh_credentials",
            "stolen from the van",
            "deleted",
            "groups base, config quiet",
            "satellite-config/quiet applied",
        ],
    );
}

#[test]
fn devices_work_as_they_are_written() {
    check(
        "devices.md",
        &[
            "0/10",
            "Pending",
            "approved",
            "tier=gold",
            "\"content\":\"hello\"",
            "Degraded",
            "memory is Degraded",
            "UpToDate",
            "rebootsRequested",
            "Decommissioned",
            "403",
            "deleted",
        ],
    );
}

#[test]
fn fleets_work_as_they_are_written() {
    check(
        "fleets.md",
        &[
            "fleet/web created",
            "4 of 4 devices run template version 1.",
            "refused with code 4",
            "Batch 1 of 2: 0 of 4 devices run template version 2; 2 updating, 2 waiting.",
            "it ended with code 4",
            "failed: no room on /var",
            "wardroom fleet rollback web",
            "template version 3, which is 1 again",
            "it fills /var",
            "not on a Friday",
            "4 of 4 devices run template version 4.",
            "deleted; its devices keep their specs",
        ],
    );
}

#[test]
fn gpu_nodes_work_as_they_are_written() {
    check_with(
        &[("wardroom-agent", "WARDROOM_TEST_AGENT"), ("wardroom-fakes", "WARDROOM_TEST_FAKES")],
        "gpu-nodes.md",
        &[
            "bootstrap_issued",
            "completed",
            "active",
            "ended with code 1",
            "load_site_config",
            "wait_for_agent_enrollment",
            "the tour is over",
            "cancelled",
            "deleted",
        ],
    );
}

#[test]
fn adapters_work_as_they_are_written() {
    check_with(
        &[("wardroom-adapter", "WARDROOM_TEST_ADAPTER"), ("wardroom-fakes", "WARDROOM_TEST_FAKES")],
        "adapters.md",
        &["no mistakes found", "Available=True Resolved", "ReconciledAll", "the cluster is gone"],
    );
}

#[test]
fn clusters_work_as_they_are_written() {
    check(
        "clusters.md",
        &[
            "dns has not reported yet",
            "The job of validation ran.",
            "reported Available=False for generation 1",
            "cluster/east applied",
            "nodepool/workers created",
            "deletion requested",
            "owns a node pool",
            "the account is closed",
        ],
    );
}

/// Returns the folder of a program that a page uses beside the tested one: where `./dev` says it is, or built here.
fn folder_of((package, variable): (&str, &str)) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_wardroom")).with_file_name(package);
    let path = std::env::var_os(variable).map_or(built, PathBuf::from);
    if std::env::var_os(variable).is_none() {
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--package", package]);
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        assert!(command.status().unwrap().success(), "{package} does not build");
    }
    path.parent().unwrap().to_owned()
}

fn check(page: &str, expected: &[&str]) {
    check_with(&[], page, expected);
}

/// Runs the commands of a page one after the other; all succeed, and what they write has these words.
fn check_with(programs: &[(&str, &str)], page: &str, expected: &[&str]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = blocks(&page);
    let settings = blocks[0].strip_suffix("wardroom serve\n").expect("the server is started first");
    let settings = settings.split_whitespace().filter_map(|setting| setting.split_once('='));

    // Free ports instead of the default ones: other tests run at the same time.
    let folder = tempfile::tempdir().unwrap();
    let mut server = program(folder.path());
    server.envs(settings).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--boot-listen",
        "127.0.0.1:0",
        "--device-listen",
        "127.0.0.1:0",
    ]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut said = |words: &str| lines.next().unwrap().strip_prefix(words).unwrap().to_owned();
    let (address, boot) = (said("wardroom listens on http://"), said("machines boot from http://"));
    let devices = said("devices connect to https://");

    // What a page starts in the background ends with it, however that ends.
    let tidy = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    let script =
        (tidy + &blocks[1..].concat()).replace("127.0.0.1:8441", &boot).replace("127.0.0.1:8442", &devices);
    let tested = Path::new(env!("CARGO_BIN_EXE_wardroom")).parent().unwrap().to_owned();
    let usual = std::env::var_os("PATH").unwrap();
    let folders = iter::once(tested).chain(programs.iter().map(|&program| folder_of(program)));
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&usual)));
    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", path.unwrap())
        .env("WARDROOM_SERVER_URL", format!("http://{address}"))
        .env("WARDROOM_CONTEXTS", folder.path().join("contexts.json"))
        .env_remove("WARDROOM_TOKEN")
        .output()
        .unwrap();
    let _ = server.kill();
    let _ = server.wait();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    for expected in expected {
        assert!(out.contains(expected), "{expected:?} is not in:\n{out}\n{err}");
    }
}
