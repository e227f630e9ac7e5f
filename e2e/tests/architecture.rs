//! Guards of the architecture: dependencies between crates, the length of files, and the purity of the core.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

/// Which crate may use which: the arrows of ARCHITECTURE.md. A crate that is not listed may not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("api", &["core"]),
    ("store", &["core"]),
    ("workflow", &["core", "store"]),
    ("spire-proto", &[]),
    ("upstream", &["core", "spire-proto"]),
    ("fakes", &["core", "spire-proto"]),
    ("console", &["core", "api"]),
    ("server", &["core", "api", "store", "workflow", "upstream", "console"]),
    ("agent", &["core", "api"]),
    ("adapter", &["core", "api", "upstream"]),
    // The names of roles and states come from the core everywhere.
    ("cli", &["core", "api", "server", "fakes"]),
];

/// Crates that only test and measure; they may use everything, and nothing may use them.
const OUTSIDE: &[&str] = &["e2e", "bench"];

/// The permitted dependencies of the pure core.
const CORE_DEPENDENCIES: &[&str] = &["jiff", "serde"];

const MAX_LINES: usize = 600;

/// Files that are longer, with their length. This list may only shrink.
const LONGER: &[(&str, usize)] = &[];

/// Words that do not belong into the core: it does not wait, read a clock, or know of a database, a file or a network.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "Instant",
    "SystemTime",
    "now()",
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE ",
    "println!",
    "eprintln!",
];

/// The same, where several modules are imported in one line.
const IMPURE_MODULES: &[&str] = &["fs", "net", "thread", "process", "env", "time"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn short(name: &str) -> &str {
    // The package in crates/cli builds the binary and has its name.
    if name == "wardroom" { "cli" } else { name.strip_prefix("wardroom-").unwrap_or(name) }
}

/// Dependencies of the shipped programs; tests may use more.
fn shipped_dependencies(package: &serde_json::Value) -> BTreeSet<&str> {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies
        .filter(|dependency| dependency["kind"] != "dev")
        .map(|dependency| dependency["name"].as_str().unwrap())
        .collect()
}

#[test]
fn crates_depend_only_on_what_they_may() {
    let packages = packages();
    assert!(!packages.is_empty());
    for package in &packages {
        let name = short(package["name"].as_str().unwrap());
        let used: Vec<_> = shipped_dependencies(package)
            .into_iter()
            .filter(|name| name.starts_with("wardroom"))
            .map(short)
            .collect();
        if OUTSIDE.contains(&name) {
            continue;
        }
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name);
        let (_, allowed) = allowed.unwrap_or_else(|| {
            panic!("crate {name} has no place in the architecture; write a decision record")
        });
        for other in used {
            assert!(allowed.contains(&other), "{name} may not use {other}, only {allowed:?}");
        }
    }
}

#[test]
fn the_core_is_built_from_little() {
    let packages = packages();
    let core = packages.iter().find(|package| package["name"] == "wardroom-core").unwrap();
    let expected: BTreeSet<_> = CORE_DEPENDENCIES.iter().copied().collect();
    assert_eq!(shipped_dependencies(core), expected);
}

#[test]
fn the_core_is_pure() {
    let files = rust_files();
    let core: Vec<_> = files.iter().filter(|path| path.starts_with("crates/core/src")).collect();
    assert!(core.len() > 5, "found the core");
    for path in core {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = code_of(line);
            let imports = code.trim_start().starts_with("use std");
            for word in IMPURE.iter().chain(IMPURE_MODULES.iter().filter(|_| imports)) {
                assert!(
                    !has_word(&code, word),
                    "{}:{}: `{word}` in the pure core: {line}",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

/// The engine works for every kind of subject, so that it names none.
#[test]
fn the_workflow_names_no_kind() {
    let files = rust_files();
    let engine: Vec<_> = files.iter().filter(|path| path.starts_with("crates/workflow/src")).collect();
    assert!(engine.len() > 10, "found the engine");
    for path in engine {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        for name in ["gpu_node", "gpu-node", "satellite"] {
            assert!(!text.contains(name), "{}: the workflow engine names {name}", path.display());
        }
    }
}

/// Returns a line without its comment and without the contents of its texts.
fn code_of(line: &str) -> String {
    let outside = line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    outside.split("//").next().unwrap().to_owned()
}

/// Whether `code` has `word` not as a part of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(start, _)| {
        let before = code[..start].chars().next_back();
        let after = code[start + word.len()..].chars().next();
        !before.is_some_and(is_name) && (!word.ends_with(is_name) || !after.is_some_and(is_name))
    })
}

#[test]
fn files_stay_short() {
    let is_test = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    let mut longer = Vec::new();
    for path in rust_files().into_iter().filter(|path| !is_test(path)) {
        let lines = std::fs::read_to_string(root().join(&path)).unwrap().lines().count();
        if lines > MAX_LINES {
            longer.push((path.to_string_lossy().into_owned(), lines));
        }
    }
    longer.sort();
    let listed: Vec<_> = LONGER.iter().map(|&(path, lines)| (path.to_owned(), lines)).collect();
    for (path, lines) in &longer {
        let allowed = LONGER.iter().find(|(known, _)| known == path).map_or(MAX_LINES, |(_, lines)| *lines);
        assert!(*lines <= allowed, "{path} has {lines} lines, {allowed} are allowed: split it");
    }
    assert_eq!(longer, listed, "a file became shorter: shorten the list as well");
}

/// Every Rust file that git knows or would know.
fn rust_files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let files: Vec<_> = listed.lines().map(PathBuf::from).filter(|path| root().join(path).exists()).collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn the_word_search_finds_words_and_not_parts_of_words() {
    assert!(has_word("pub async fn", "async"));
    assert!(!has_word("asynchronous", "async"));
    assert!(has_word("Timestamp::now()", "now()"));
    assert!(!has_word("unknown()", "now()"));
    assert_eq!(code_of(r#"let x = "async"; // async"#).trim_end(), r#"let x = "";"#);
}

/// Kinds without a folder yet.
const TO_COME: &[&str] = &["cluster", "device"];

/// The folders of the kinds, and their names in code.
fn kinds() -> BTreeSet<String> {
    let rooms = std::fs::read_dir(root().join("crates/server/src/kinds")).unwrap();
    let rooms = rooms.map(|room| room.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    let kinds: BTreeSet<_> = rooms.chain(TO_COME.iter().map(|&kind| kind.to_owned())).collect();
    assert!(kinds.len() > TO_COME.len(), "found the rooms");
    kinds
}

/// Files outside of the kinds' rooms that may name one: the list of rows, and the server that gives listeners to some.
const NAMED_IN: &[&str] = &["crates/server/src/kinds.rs", "crates/server/src/serve.rs"];

#[test]
fn shared_code_of_the_server_names_no_kind() {
    let kinds = kinds();
    let mut looked_at = 0;
    for path in rust_files().iter().filter(|path| path.starts_with("crates/server/src")) {
        let name = path.to_string_lossy();
        let room = kinds.iter().find(|kind| {
            name.starts_with(&format!("crates/server/src/kinds/{kind}/"))
                || name == format!("crates/server/src/kinds/{kind}.rs")
        });
        let is_test =
            path.components().any(|part| part.as_os_str() == "tests") || name.ends_with("/tests.rs");
        if is_test || NAMED_IN.contains(&&*name) {
            continue;
        }
        looked_at += 1;
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        // Tests at the end of a file start servers with all kinds.
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in shipped.lines().enumerate() {
            let code = code_of(line);
            let others = kinds.iter().filter(|kind| Some(*kind) != room);
            for kind in others {
                let named = match room {
                    // The name of one kind may be a variable of another.
                    Some(_) => code.contains(&format!("kinds::{kind}")),
                    None => has_word(&code, kind) || has_word(&code, &format!("{kind}s")),
                };
                assert!(!named, "{name}:{} names {kind}: {line}", number + 1);
            }
        }
    }
    assert!(looked_at > 100, "found the server");
}

/// Shared files of the command line in which its kinds are named: the list of kinds, and the translation of the API's requests
/// into commands. This list may only shrink.
const NAMED_IN_COMMANDS: &[&str] = &["crates/cli/src/kind.rs", "crates/cli/src/subject.rs"];

#[test]
fn shared_code_of_the_command_line_names_no_kind() {
    let list = std::fs::read_to_string(root().join("crates/cli/src/kind.rs")).unwrap();
    // Each kind has a line `Self::Node => "node"`.
    let variants: Vec<_> = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => "))
        .map(|(variant, _)| (format!("Kind::{variant}"), format!("Self::{variant}")))
        .collect();
    assert!(variants.len() > 5, "found the kinds");
    let mut named = BTreeSet::new();
    for path in rust_files().iter().filter(|path| path.starts_with("crates/cli/src")) {
        let name = path.to_string_lossy();
        // A kind's own file shows it, or creates it.
        if name.starts_with("crates/cli/src/view/") || name.starts_with("crates/cli/src/command/create/") {
            continue;
        }
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let is_list = name.ends_with("/kind.rs");
        let names_one = |line: &str| {
            let code = code_of(line);
            let has =
                |(kind, own): &(String, String)| has_word(&code, kind) || is_list && has_word(&code, own);
            variants.iter().any(has)
        };
        if shipped.lines().any(names_one) {
            named.insert(name.into_owned());
        }
    }
    let allowed: BTreeSet<_> = NAMED_IN_COMMANDS.iter().map(|&path| path.to_owned()).collect();
    assert_eq!(named, allowed, "let `view::Resource` say what differs between kinds");
}
