//! Logging in to several servers, and using one of them.

use std::{
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::{Command, Stdio},
};

use crate::fixture::{Ran, Server, program};

/// Runs a command in a folder, with a text on its standard input.
fn given(dir: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut command: Command = program(dir);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_person_works_with_several_servers() {
    let (one, two) = (Server::start(), Server::start());
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| given(home.path(), arguments, "");
    let token = |server: &Server, name: &str| server.ok(&["token", "create", name, "--role", "operator"]);
    let (ada, bob) = (token(&one, "ada"), token(&two, "bob"));
    run(&["context", "list"]).success();
    run(&["context", "use", "one"])
        .says(3, &["there is no context \"one\": there are none", "wardroom login"]);

    let login = given(home.path(), &["login", &one.url, "--name", "one"], &ada);
    assert_eq!(login.success(), format!("logged in to {} as ada (operator); the context is one\n", one.url));
    given(home.path(), &["login", &two.url], &bob).success();
    let file = home.path().join("contexts.json");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);

    // The last login counts, a flag counts more, and each token goes to its own server.
    let host = two.url.strip_prefix("http://").unwrap().replace(':', "-");
    assert!(run(&["whoami"]).success().contains("bob"));
    let me = run(&["whoami", "--context", "one"]).success();
    assert!(me.contains("ada") && me.contains("the context one") && me.contains(&one.url), "{me}");
    run(&["context", "use", "one"]).success();
    let listed = run(&["context", "list"]).success();
    assert!(
        listed.contains("*         one") && listed.contains(&host) && !listed.contains("wrt_"),
        "{listed}"
    );
    assert!(!run(&["context", "list", "-o", "json"]).success().contains("wrt_"));
    run(&["get", "nodes"]).success();
    run(&["get", "nodes", "--server", &two.url]).says(5, &["wardroom login"]);
    run(&["get", "nodes", "--server", &two.url, "--context", "one"]).says(2, &["--context"]);
    let mut elsewhere = program(home.path());
    elsewhere.args(["get", "nodes"]).env("WARDROOM_SERVER_URL", &two.url);
    Ran::of(elsewhere).says(5, &["wardroom login"]);
    let mut chosen = program(home.path());
    chosen.args(["whoami"]).env("WARDROOM_CONTEXT", &host);
    assert!(Ran::of(chosen).success().contains("bob"));

    run(&["context", "rename", "one", &host]).says(4, &["already"]);
    run(&["context", "rename", "one", "lab"]).success();
    run(&["context", "rename", "lab", "a/b"]).says(2, &["letters"]);
    assert!(run(&["whoami"]).success().contains("the context lab"));
    run(&["context", "delete", "lab"]).success();
    run(&["context", "delete", "lab"]).says(3, &[&format!("there are: {host}")]);

    // A token that is refused is not kept, and nothing of a file that others can read is used.
    for (input, code) in [("wrt_unknown\n", 5), ("", 2), ("two words\n", 2)] {
        let refused = given(home.path(), &["login", &one.url, "--name", "bad"], input);
        assert_eq!(refused.code, code, "{}", refused.err);
        assert!(!refused.err.contains("wrt_unknown"), "{}", refused.err);
    }
    assert!(!run(&["context", "list"]).success().contains("bad"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    run(&["get", "nodes"]).says(5, &["others can read", "chmod 600"]);
}

#[test]
fn a_link_to_the_console_is_printed() {
    let server = Server::start();
    let link = server.ok(&["console"]);
    assert!(link.starts_with(&format!("{}/console/login#wrl_", server.url)), "{link}");
    let json: serde_json::Value = serde_json::from_str(&server.ok(&["console", "-o", "json"])).unwrap();
    assert!(json["url"].is_string() && json["expires_at"].is_string(), "{json}");
}
