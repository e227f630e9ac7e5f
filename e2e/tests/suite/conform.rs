//! `wardroom conform`: our own adapter conforms; a program that does nothing, or tells its token, does not.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::support::site::{adapter, binary};

fn conform(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    command.arg("conform").args(arguments).env("TMPDIR", dir.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of it");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn our_own_adapter_conforms() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/dns.yaml");
    let dir = tempfile::tempdir().unwrap();
    let spec = dir.path().join("spec.yaml");
    std::fs::write(&spec, "dns_name: localhost\n").unwrap();
    let program = adapter();
    let words = [
        "adapter",
        "dns",
        "--json",
        "--spec",
        spec.to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
        "run",
        "--config",
        config.to_str().unwrap(),
        "--server",
        "{server}",
        "--token-file",
        "{token_file}",
    ];
    let judged = conform(&words);
    let (card, said) = (text(&judged.stdout), text(&judged.stderr));
    assert!(judged.status.success(), "{card}{said}");
    let card: Value = serde_json::from_str(&card).unwrap();
    let rules = card.as_array().unwrap();
    assert!(rules.len() >= 9 && rules.iter().all(|rule| rule["result"] == "held"), "{card}");
}

#[test]
fn a_program_that_breaks_the_contract_is_told_which_rule() {
    let idle = "trap 'exit 0' TERM; cat $WARDROOM_TOKEN_FILE; sleep 60 & wait";
    let judged = conform(&["adapter", "dns", "--patience", "1s", "--", "sh", "-c", idle]);
    let card = text(&judged.stdout);
    assert_eq!(judged.status.code(), Some(1), "{card}");
    let line = |rule: &str| card.lines().find(|line| line.contains(rule)).unwrap().to_owned();
    assert!(
        line("reports on a new cluster").starts_with("✗") && card.contains("no report was accepted"),
        "{card}"
    );
    assert!(line("every new generation").contains("not tried"), "{card}");
    assert!(line("ends within 10 seconds").starts_with("✓"), "{card}");
    assert!(line("its token nowhere").starts_with("✗") && !card.contains("wrt_"), "{card}");
    assert!(card.ends_with("1 of 9 rules hold\n"), "{card}");

    let gone =
        conform(&["adapter", "dns", "--patience", "30s", "--", "sh", "-c", "echo no such flag; exit 3"]);
    let card = text(&gone.stdout);
    assert!(card.contains("it ended by itself: exit status: 3; it said: no such flag"), "{card}");
    let missing = conform(&["adapter", "dns", "--", "/no/such/program"]);
    assert!(text(&missing.stderr).contains("cannot start /no/such/program"), "{}", text(&missing.stderr));
}
