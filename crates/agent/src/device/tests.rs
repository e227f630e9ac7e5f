//! Updates that are killed before and after each effect, by number: every file is whole, the set is the old or the new one
//! after the next start, and each hook sees one version.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use super::{ApplyOptions, apply, crash, record::Record};

/// The folder of the device in the process that is killed.
const CHILD: &str = "WARDROOM_TEST_DEVICE";

/// The files of the two versions, one after another.
const OLD: &str = "a1b1";
const NEW: &str = "a2n2";

/// What a device does with its update.
#[derive(Clone, Copy)]
struct Story {
    /// Whether the update has another image.
    new_os: bool,
    /// The hook that fails, `health`, or nothing.
    fails: &'static str,
    /// The hooks that run, in their order, each as often as it likes.
    hooks: &'static [&'static str],
}

/// A device in a folder of its own, at version 1.
struct Device {
    dir: tempfile::TempDir,
}

impl Device {
    fn new(story: Story) -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let device = Self { dir };
        for (name, text) in [("booted", "os:1"), ("next", "os:1"), ("boot", "boot-1"), ("fails", "")] {
            fs::write(device.path(name), text).unwrap();
        }
        fs::create_dir_all(device.path("files")).unwrap();
        fs::write(device.path("files/a"), "").unwrap();
        fs::set_permissions(device.path("files/a"), fs::Permissions::from_mode(0o640)).unwrap();
        device.configure();
        device.spec("1", &[("a", "a1"), ("b", "b1"), ("same", "s")], None);
        device.hook();
        let first = device.run(None);
        assert!(first.status.success(), "{}", said(&first));
        fs::remove_file(device.path("log")).unwrap();
        fs::write(device.path("fails"), story.fails).unwrap();
        device.spec("2", &[("a", "a2"), ("c/d/new", "n2"), ("same", "s")], story.new_os.then_some("os:2"));
        device
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A reboot brings the staged image up under another boot id, and ends the agent.
    fn configure(&self) {
        let here = self.dir.path().display();
        let reboot = format!(
            "cp {here}/next {here}/booted; echo $$ >{here}/boot.new; mv {here}/boot.new {here}/boot; kill -9 $PPID"
        );
        let config = format!(
            "[hooks]\nvendor = \"{here}/none\"\nlocal = \"{here}/hooks\"\n[os]\ndriver = \"commands\"\ntimeout_seconds = 5\n\
             boot_id = \"{here}/boot\"\nbooted = [\"cat\", \"{here}/booted\"]\n\
             stage = [\"sh\", \"-c\", \"echo {{image}} >{here}/next\"]\nreboot = [\"sh\", \"-c\", \"{reboot}\"]\n\
             rollback = [\"sh\", \"-c\", \"echo os:1 >{here}/next\"]\n\
             health = [\"sh\", \"-c\", \"! grep -qx health {here}/fails\"]\n"
        );
        fs::write(self.path("agent.toml"), config).unwrap();
    }

    /// Each hook notes what it sees of the files, and one of them fails.
    fn hook(&self) {
        let here = self.dir.path().display();
        let text = format!(
            "- run: [sh, -c, 'cd {here}/files; echo $WARDROOM_HOOK $(cat a b c/d/new 2>/dev/null) >>../log']\n\
             - run: [sh, -c, '! grep -qx $WARDROOM_HOOK {here}/fails']\n"
        );
        for hook in ["beforeUpdating", "beforeRebooting", "afterRebooting", "afterUpdating"] {
            fs::create_dir_all(self.path("hooks").join(hook)).unwrap();
            fs::write(self.path("hooks").join(hook).join("10-log.yaml"), &text).unwrap();
        }
    }

    fn spec(&self, version: &str, files: &[(&str, &str)], image: Option<&str>) {
        let inline: Vec<_> = files
            .iter()
            .map(|(name, content)| {
                serde_json::json!({"path": self.path("files").join(name), "content": content})
            })
            .collect();
        let mut spec = serde_json::json!({"config": [{"name": "files", "inline": inline}]});
        if let Some(image) = image {
            spec["os"] = serde_json::json!({"image": image});
        }
        let metadata = serde_json::json!({"name": "d", "annotations": {"renderedVersion": version}});
        let device = serde_json::json!({"metadata": metadata, "spec": spec});
        fs::write(self.path("spec.json"), device.to_string()).unwrap();
    }

    /// Runs the agent in a process of its own, which may be killed at a point.
    fn run(&self, point: Option<usize>) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "device::tests::child", "--nocapture"]).env(CHILD, self.dir.path());
        command.env_remove(crash::ENV);
        if let Some(point) = point {
            command.env(crash::ENV, point.to_string());
        }
        command.output().unwrap()
    }

    /// Runs the agent again until it is not ended by a reboot any more.
    fn recover(&self) -> Output {
        for _ in 0..6 {
            let ran = self.run(None);
            if ran.status.signal().is_none() {
                return ran;
            }
        }
        panic!("the agent does not come to an end");
    }

    fn files(&self) -> String {
        ["a", "b", "c/d/new"].map(|name| self.read(&format!("files/{name}"))).concat()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn record(&self) -> Record {
        serde_json::from_str(&self.read("state/device.json")).unwrap()
    }

    /// Names of the agent's own that are left beside the files.
    fn left_over(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.path("files")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name().to_string_lossy().starts_with(".wardroom") {
                    found.push(entry.path());
                }
            }
        }
        found
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The agent, in the process that a test starts.
#[tokio::test]
async fn child() {
    let Some(dir) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let spec = Some(dir.join("spec.json"));
    let options = ApplyOptions { spec, state_dir: dir.join("state"), config: dir.join("agent.toml") };
    if let Err(error) = apply(options).await {
        eprintln!("{error:#}");
        std::process::exit(2);
    }
}

/// Kills the update at one point, and checks the device after the crash and after the next starts. Returns whether the
/// update passed the point.
fn check(story: Story, point: usize) -> bool {
    let device = Device::new(story);
    let crashed = device.run(Some(point));
    let reached = said(&crashed).contains(&format!("ends at point {point},"));
    for (name, versions) in
        [("a", ["a1", "a2"]), ("b", ["b1", ""]), ("c/d/new", ["n2", ""]), ("same", ["s", "s"])]
    {
        let content = device.read(&format!("files/{name}"));
        assert!(versions.contains(&content.as_str()), "point {point}: {name} is {content:?}");
    }

    let ended = device.recover();
    let context = format!("point {point}: {}\n{}", said(&crashed), said(&ended));
    let succeeds = matches!(story.fails, "" | "afterRebooting");
    assert_eq!(ended.status.code(), Some(if succeeds { 0 } else { 2 }), "{context}");
    let (files, version, image) = match (succeeds, story.new_os) {
        (true, true) => (NEW, "2", "os:2"),
        (true, false) => (NEW, "2", "os:1"),
        (false, _) => (OLD, "1", "os:1"),
    };
    assert_eq!(device.files(), files, "{context}");
    assert_eq!(device.read("booted").trim(), image, "{context}");
    assert_eq!(device.read("next").trim(), image, "{context}");
    let record = device.record();
    let outcome = record.outcome.unwrap();
    assert_eq!((record.current.unwrap().version.as_str(), record.update), (version, None), "{context}");
    assert_eq!(outcome.version, "2");
    assert!(succeeds || outcome.message.contains(story.fails), "{}: {context}", outcome.message);
    assert_eq!(device.left_over(), Vec::<PathBuf>::new(), "{context}");
    assert_eq!(device.path("files/c").exists(), succeeds, "{context}");
    let mode = fs::metadata(device.path("files/a")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o640, "{context}");
    let log = device.read("log");
    check_hooks(story, &log, &context);

    let again = device.run(None);
    assert_eq!(again.status.code(), ended.status.code(), "not tried again: {context}");
    assert_eq!(device.read("log"), log, "no hook runs again: {context}");
    assert_eq!(device.files(), files, "{context}");
    reached
}

/// A hook that was interrupted runs again; each sees the version of its place.
fn check_hooks(story: Story, log: &str, context: &str) {
    let mut order: Vec<&str> = Vec::new();
    for line in log.lines() {
        let (hook, seen) = line.split_once(' ').unwrap_or((line, ""));
        let seen: String = seen.split_whitespace().collect();
        let expected = if hook == "beforeUpdating" { OLD } else { NEW };
        assert_eq!(seen, expected, "{hook}: {context}");
        if order.last() != Some(&hook) {
            order.push(hook);
        }
    }
    assert_eq!(order, story.hooks, "{context}");
}

/// Kills an update at every point.
fn check_all(story: Story) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while check(story, next.fetch_add(1, SeqCst)) {});
        }
    });
    assert!(next.load(SeqCst) > 40, "there are points");
}

#[test]
fn an_update_of_files_survives_a_crash_at_every_point() {
    let hooks = &["beforeUpdating", "afterUpdating"];
    check_all(Story { new_os: false, fails: "", hooks });
}

#[test]
fn a_rollback_of_files_survives_a_crash_at_every_point() {
    let hooks = &["beforeUpdating", "afterUpdating"];
    check_all(Story { new_os: false, fails: "afterUpdating", hooks });
}

#[test]
fn an_update_of_files_and_image_survives_a_crash_at_every_point() {
    let hooks = &["beforeUpdating", "beforeRebooting", "afterRebooting", "afterUpdating"];
    check_all(Story { new_os: true, fails: "", hooks });
}

#[test]
fn a_rollback_of_files_and_image_survives_a_crash_at_every_point() {
    let hooks = &["beforeUpdating", "beforeRebooting", "afterRebooting", "afterUpdating"];
    check_all(Story { new_os: true, fails: "afterUpdating", hooks });
}

/// Every hook and the boot check fail, without a crash.
#[test]
fn each_failure_ends_where_the_table_says() {
    let all = &["beforeUpdating", "beforeRebooting", "afterRebooting", "afterUpdating"];
    for (fails, hooks) in [
        ("beforeUpdating", &all[..1]),
        ("beforeRebooting", &all[..2]),
        ("health", &all[..2]),
        ("afterRebooting", &all[..]),
        ("afterUpdating", &all[..]),
    ] {
        assert!(!check(Story { new_os: true, fails, hooks }, usize::MAX), "{fails}");
    }
}
