//! Which actions of a hook run, with which words, and what becomes of a failure.

use super::*;
use crate::device::files::Operation;

fn occasion<'a>(changes: &'a [Change], rebooted: bool) -> Occasion<'a> {
    Occasion { hook: Hook::AfterUpdating, version: "7", changes, rebooted }
}

fn changes() -> Vec<Change> {
    [("/etc/a", Operation::Created), ("/etc/d/b", Operation::Updated), ("/etc/d/c", Operation::Removed)]
        .into_iter()
        .map(|(path, operation)| Change::new(path.into(), operation))
        .collect()
}

/// Returns the words of the first action; nothing if it does not run.
fn words(yaml: &str, rebooted: bool) -> Option<Vec<String>> {
    Action::read(yaml).unwrap()[0].command(&occasion(&changes(), rebooted))
}

#[test]
fn conditions_choose_actions() {
    for (conditions, runs) in [
        ("", true),
        ("  if: [{path: /etc/a}]", true),
        ("  if: [{path: /etc/a, op: [created]}]", true),
        ("  if: [{path: /etc/a, op: [updated, removed]}]", false),
        ("  if: [{path: /etc/d/, op: [removed]}]", true),
        ("  if: [{path: /etc/d}]", false),
        ("  if: [{path: /etc/x/}]", false),
        ("  if: [{path: /etc/a}, {path: /etc/x}]", false),
        ("  if: [{rebooted: true}]", true),
        ("  if: [{rebooted: false}]", false),
        ("  if: ['rebooted == true', {path: /etc/a}]", true),
        ("  if: ['rebooted == false']", false),
    ] {
        assert_eq!(words(&format!("- run: touch\n{conditions}\n"), true).is_some(), runs, "{conditions}");
    }
}

#[test]
fn words_are_split_and_filled_without_a_shell() {
    for (run, expected) in [
        ("touch 'a b' \"c d\"e $HOME ; x", vec!["touch", "a b", "c de", "$HOME", ";", "x"]),
        ("touch ${Files}", vec!["touch", "/etc/a", "/etc/d/b", "/etc/d/c"]),
        ("touch ${CreatedFiles} -- ${RemovedFiles}", vec!["touch", "/etc/a", "--", "/etc/d/c"]),
        ("touch 'x=${UpdatedFiles}'", vec!["touch", "x=/etc/d/b"]),
        ("[touch, 'a b']", vec!["touch", "a b"]),
    ] {
        assert_eq!(words(&format!("- run: {run}\n"), false).unwrap(), expected, "{run}");
    }
    let about = words("- run: touch ${Path} ${Files}\n  if: [{path: /etc/d/}]\n", false).unwrap();
    assert_eq!(about, ["touch", "/etc/d", "/etc/d/b", "/etc/d/c"]);
}

#[test]
fn a_wrong_file_is_refused_as_a_whole() {
    for wrong in [
        "- run: ''\n",
        "- run: \"touch 'a\"\n",
        "- rum: touch\n",
        "- run: touch\n  timeout: soon\n",
        "- run: touch\n  timeout: 0s\n",
        "- run: touch\n  if: [{op: [created]}]\n",
        "- run: touch\n  if: [{path: etc}]\n",
        "- run: touch\n  if: [{path: /etc, op: [burned]}]\n",
        "- run: touch\n  if: ['cpu == hot']\n",
        "run: touch\n",
    ] {
        assert!(Action::read(wrong).is_err(), "{wrong}");
    }
    assert!(Action::read("# nothing yet\n\n").unwrap().is_empty());
}

/// Folders with hooks, and the mark of commands.
struct Folders {
    dir: tempfile::TempDir,
    hooks: Hooks,
}

impl Folders {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let hooks = Hooks { vendor: dir.path().join("vendor"), local: dir.path().join("local") };
        Self { dir, hooks }
    }

    fn add(&self, file: &str, text: &str) {
        let path = self.dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Appends a word to the log.
    fn logs(&self, file: &str, word: &str) {
        let log = self.log();
        self.add(file, &format!("- run: [sh, -c, 'echo {word} >>{}']\n", log.display()));
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    async fn run(&self) -> Result<(), String> {
        run(&self.hooks, &occasion(&changes(), false), &self.dir.path().join("running")).await
    }
}

#[tokio::test]
async fn local_files_replace_those_of_the_vendor_and_run_in_order() {
    let folders = Folders::new();
    assert_eq!(folders.run().await, Ok(()), "there are no hooks");
    folders.logs("vendor/afterUpdating/20-b.yaml", "vendor-b");
    folders.logs("vendor/afterupdating/10-a.yaml", "vendor-a");
    folders.logs("local/afterUpdating/20-b.yaml", "local-b");
    folders.logs("local/afterUpdating/15-c.yaml", "local-c");
    folders.logs("local/afterUpdating/30-d.yaml.off", "off");
    folders.logs("local/beforeUpdating/10-e.yaml", "other");
    folders.run().await.unwrap();
    assert_eq!(fs::read_to_string(folders.log()).unwrap(), "vendor-a\nlocal-c\nlocal-b\n");
}

#[tokio::test]
async fn the_first_failure_ends_a_hook_and_names_itself() {
    for (action, expected) in [
        ("- run: [sh, -c, 'echo it is broken; exit 3']\n", "it is broken"),
        ("- run: 'false'\n", "exit code 1"),
        ("- run: no-such-program --flag\n", "no-such-program"),
        ("- run: /no/such/program\n", "/no/such/program"),
        ("- run: sleep 60\n  timeout: 1s\n", "ended after 1 s"),
        ("- run: 'true'\n  workDir: /no/such/folder\n", "No such file"),
        ("- nonsense\n", "10-a.yaml"),
    ] {
        let folders = Folders::new();
        folders.add("local/afterUpdating/10-a.yaml", action);
        folders.logs("local/afterUpdating/20-b.yaml", "not reached");
        let error = folders.run().await.unwrap_err();
        assert!(error.contains("afterUpdating") && error.contains(expected), "{action}: {error}");
        assert!(!folders.log().exists(), "{action}");
    }
}

#[tokio::test]
async fn an_action_gets_its_environment_and_its_folder() {
    let folders = Folders::new();
    let there = folders.dir.path().display();
    let action = format!(
        "- run: [sh, -c, 'echo $WARDROOM_HOOK $WARDROOM_RENDERED_VERSION $GREETING >>log']\n  envVars: {{GREETING: hey}}\n  \
         workDir: {there}\n"
    );
    folders.add("local/afterUpdating/10-a.yaml", &action);
    folders.run().await.unwrap();
    assert_eq!(fs::read_to_string(folders.log()).unwrap(), "afterUpdating 7 hey\n");
}
