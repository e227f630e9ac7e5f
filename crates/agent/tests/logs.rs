//! What the agent writes to its log.

use std::process::Command;

/// Journals and files keep what they get: colours would stay in them as noise.
#[test]
fn a_log_that_goes_to_a_pipe_has_no_colours() {
    let dir = tempfile::tempdir().expect("a folder");
    let ran = Command::new(env!("CARGO_BIN_EXE_wardroom-agent"))
        .args(["gpu-node", "--server", "http://127.0.0.1:1", "--state-dir", "state", "--config", "none.toml"])
        .current_dir(dir.path())
        .output()
        .expect("the agent runs");
    let said = String::from_utf8(ran.stderr).expect("a text");
    assert!(!ran.status.success() && said.contains("none.toml"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}
