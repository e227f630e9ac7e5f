//! What the command line does for a shell: completion and manual pages.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use crate::fixture::{Ran, Server, program};

/// Completes a line in bash, with the script that the program writes. Gives what bash would insert.
fn in_bash(server: &Server, line: &str) -> Vec<String> {
    let script = server.ok(&["completion", "bash"]);
    let run = r#"COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; _wardroom; printf '%s\n' "${COMPREPLY[@]}""#;
    let mut command = Command::new("bash");
    let folder = Path::new(env!("CARGO_BIN_EXE_wardroom")).parent().unwrap();
    let path = std::env::join_paths([folder, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    command.args(["-c", &format!("source /dev/stdin; {run}"), "bash", line]).env("PATH", path);
    command.current_dir(server.dir.path()).env("WARDROOM_SERVER_URL", &server.url);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn names_are_completed_from_the_server() {
    let server = Server::start();
    server.node("52:54:00:00:00:01", &["--hostname", "rack1-u01"]);
    server.node("52:54:00:00:00:02", &["--hostname", "rack1-u02"]);
    let complete = |line: &str| server.run(&["__complete", "--", line]);
    // The server has a tenth of a second; on a busy machine it is asked again.
    let names = |line: &str| {
        let found = (0..50).map(|_| complete(line).out).find(|found| !found.is_empty());
        found.unwrap_or_else(|| panic!("{line}: nothing came in fifty tries"))
    };
    assert_eq!(names("wardroom node approve rack"), "rack1-u01\nrack1-u02\n");
    assert_eq!(names("wardroom approve node rack1-u01 "), "rack1-u02\n");
    assert_eq!(names("wardroom get nodes rack1-u02"), "rack1-u02\n");
    assert_eq!(complete("wardroom get nodes --state=pend").success(), "--state=pending\n");

    // Bash takes the part behind the equals sign as a word of its own.
    assert_eq!(in_bash(&server, "wardroom get nodes --state=pend"), ["pending"]);
    assert_eq!(in_bash(&server, "wardroom wait node x --for state=pend"), ["pending"]);
    assert_eq!(in_bash(&server, "wardroom whoa"), ["whoami"]);
    assert!(in_bash(&server, "wardroom apply -f ").is_empty(), "the shell offers files");
}

#[test]
fn without_a_server_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command
        .args(["__complete", "--", "wardroom node approve "])
        .env("WARDROOM_SERVER_URL", "http://127.0.0.1:1");
    let ran = Ran::of(command);
    assert_eq!((ran.code, &*ran.out), (1, ""));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.args(["man", "man1"]);
    Ran::of(command).says(0, &["man man1/wardroom.1"]);
    let pages = folder.path().join("man1");
    let node = std::fs::read_to_string(pages.join("wardroom-node-approve.1")).unwrap();
    assert!(node.contains(".TH wardroom-node-approve 1"), "{node}");
    let hidden = std::fs::read_dir(&pages).unwrap().filter_map(Result::ok);
    assert!(hidden.map(|page| page.file_name()).all(|name| !name.to_string_lossy().contains("__")));
}

#[test]
fn top_is_shown_once_without_a_terminal() {
    let server = Server::start();
    server.node("52:54:00:00:00:01", &[]);
    let shown = server.ok(&["top", "--every", "1"]);
    assert!(shown.starts_with("KIND ") && shown.lines().any(|line| line.starts_with("node ")), "{shown}");
    assert!(shown.contains("discovered 1") && !shown.contains('\u{1b}'), "{shown}");
}
