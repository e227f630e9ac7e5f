//! `wardroom demo`: what is planted is found and cured with the commands that the demo and `why` print, and nothing is left.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

use crate::support::{Api, site::binary, wait_for, wait_long_for};

/// A demo that runs.
pub(crate) struct Demo {
    child: Child,
    /// What it said before it was ready.
    said: Vec<String>,
    /// The folder in which it makes its own.
    dir: tempfile::TempDir,
}

impl Demo {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command.arg("demo").args(arguments).env("TMPDIR", dir.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let is_last = line.contains("Ctrl-C ends it");
            said.push(line);
            if is_last {
                break;
            }
        }
        assert!(said.last().is_some_and(|line| line.contains("Ctrl-C")), "{said:?}");
        Self { child, said, dir }
    }

    /// Its server, without a token.
    pub(crate) fn stranger(&self) -> Api {
        let url = self.line("/console").split_once("http://").unwrap().1;
        Api::new(url.split('/').next().unwrap().parse().unwrap(), None)
    }

    /// A new token of this role; its name is that of a person in history.
    pub(crate) fn token(&self, name: &str, role: &str) -> String {
        self.ok(&format!("wardroom token create {name} --role {role}")).trim().to_owned()
    }

    /// The line of what it said that has these words.
    pub(crate) fn line(&self, words: &str) -> &str {
        self.said
            .iter()
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("{words}: {:?}", self.said))
    }

    /// Pastes a command into a shell, behind the line that the demo offers for that.
    fn paste(&self, command: &str) -> Output {
        let export = self.line("export ").split_once("export ").unwrap().1;
        let path =
            std::env::join_paths([binary().parent().unwrap(), Path::new("/usr/bin"), Path::new("/bin")]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("export {export}; {command}")).env("PATH", path.unwrap());
        shell.stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn ok(&self, command: &str) -> String {
        let output = self.paste(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {} {said}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// What stands still until a person acts: kind and name of each cause.
    pub(crate) fn needs(&self) -> BTreeSet<(String, String)> {
        let found: Value = serde_json::from_str(&self.ok("wardroom get --needs-attention -o json")).unwrap();
        let text = |need: &Value, field: &str| need[field].as_str().unwrap().to_owned();
        let stuck = found.as_array().unwrap().iter().filter(|need| need["urgency"] == "stuck");
        stuck.map(|need| (text(need, "kind"), text(need, "name"))).collect()
    }

    pub(crate) fn is_calm(&self, (kind, name): (&str, &str)) -> Option<()> {
        (!self.needs().contains(&(kind.to_owned(), name.to_owned()))).then_some(())
    }

    /// The name behind some words in what it said.
    pub(crate) fn name(&self, words: &str) -> String {
        let line = self.line(words).split_once(words).unwrap().1;
        line.split_whitespace().next().unwrap().trim_end_matches([',', ':']).to_owned()
    }

    /// Ends it, and checks that nothing is left.
    pub(crate) fn ends(mut self) {
        let signalled = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        let status = wait_for("the end of the demo", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 0, "its folder is gone");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that `why` prints behind `Next`.
pub(crate) fn next(why: &str) -> String {
    let line = why.lines().find_map(|line| line.strip_prefix("Next")).unwrap_or_else(|| panic!("{why}"));
    line.trim_start().split("   ").next().unwrap().to_owned()
}

#[test]
fn what_is_planted_is_found_and_cured() {
    let demo = Demo::start(&["--seed", "7", "--members", "60", "--listen", "127.0.0.1:0"]);
    let cures = [
        ("gpu-node", demo.name("wardroom why gpu-node ")),
        ("node", demo.name("wardroom why node ")),
        ("satellite", demo.name("wardroom why satellite ")),
        ("fleet", demo.name("wardroom why fleet ")),
    ];
    let adapter = demo.name("--adapter ");
    let zone = demo.name("problem is zone ");
    let mut planted: BTreeSet<_> =
        cures.iter().map(|(kind, name)| ((*kind).to_owned(), name.clone())).collect();
    planted.insert(("adapter".to_owned(), adapter.clone()));
    wait_long_for("everything that is planted", || {
        let needs = demo.needs();
        let is_dark = needs.iter().any(|(kind, name)| kind == "incident" && name.contains(&zone));
        (planted.is_subset(&needs) && is_dark).then_some(())
    });

    for (kind, name) in &cures {
        let why = demo.ok(&format!("wardroom why {kind} {name}"));
        let command = next(&why);
        assert!(command.starts_with("wardroom "), "{why}");
        demo.ok(&command);
    }
    let token = demo.line("wardroom token create ").split_once("wardroom ").unwrap().1;
    demo.ok(&format!("wardroom {}", token.split("   ").next().unwrap()));
    for (kind, name) in &cures {
        wait_long_for(&format!("{kind} {name} to be well"), || demo.is_calm((kind, name)));
    }
    wait_long_for("the adapter to be heard", || demo.is_calm(("adapter", &adapter)));
    for (kind, name, state) in [
        ("gpu-node", &cures[0].1, "active"),
        ("node", &cures[1].1, "active"),
        ("satellite", &cures[2].1, "online"),
        ("fleet", &cures[3].1, "Inactive"),
    ] {
        demo.ok(&format!("wardroom wait {kind} {name} --for=state={state} --timeout 60"));
    }
    // What is cured stays cured while everything else goes on.
    let before = demo.ok("wardroom history -o json");
    wait_long_for("the fleet to go on", || (demo.ok("wardroom history -o json") != before).then_some(()));
    assert!(demo.needs().is_disjoint(&planted), "{:?}", demo.needs());
    demo.ends();
}

#[test]
fn a_demo_that_was_killed_is_cleaned_up_by_the_next() {
    let mut killed = Demo::start(&["--members", "50", "--listen", "127.0.0.1:0"]);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert_eq!(fs::read_dir(killed.dir.path()).unwrap().count(), 1);
    let mut command = Command::new(binary());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    command.args(["demo", "--listen", &address]).env("TMPDIR", killed.dir.path());
    let refused = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("--listen"), "{said}");
    assert_eq!(fs::read_dir(killed.dir.path()).unwrap().count(), 0, "of neither anything is left");
}
