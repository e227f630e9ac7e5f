//! The agent of a device as a program of its own, beside a server: updates, failures, power cuts, revocation and the end.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{Backend, Site, on_both, site, wait_for, wait_long_for};

on_both! {
    a_device_follows_its_spec_and_leaves_what_fails,
    an_update_ends_without_its_server,
    an_agent_that_is_killed_at_random_leaves_whole_files,
    a_requested_reboot_runs_its_hooks_once,
    a_revoked_device_stays_out_until_it_is_approved_again,
    a_denied_device_stays_out,
    a_decommissioned_device_is_wiped_and_stays_gone,
}

/// How often the agent is killed.
const ROUNDS: usize = 12;

/// A device with an agent, and its server.
struct Device {
    site: Site,
    dir: tempfile::TempDir,
    url: String,
    agent: Option<Child>,
}

impl Device {
    fn new(on: Backend, settings: &[(&str, &str)], approve: bool) -> Self {
        // The agent finds its server again after a restart.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut all = vec![("WARDROOM_DEVICES_LISTEN", address.as_str())];
        all.extend(settings);
        let site = Site::alone(on, &all);
        let token = json!({"name": "t", "autoApprove": approve});
        let made = site.admin().post("/api/v1/enrollmenttokens", &token).expect(201);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("token"), made["token"].as_str().unwrap()).unwrap();
        fs::create_dir(dir.path().join("files")).unwrap();
        fs::write(dir.path().join("boot"), "boot-1").unwrap();
        let here = dir.path().display();
        let config = format!(
            "[hooks]\nvendor = \"{here}/none\"\nlocal = \"{here}/hooks\"\n[os]\nboot_id = \"{here}/boot\"\n\
             timeout_seconds = 20\nreboot = [\"sh\", \"-c\", \"echo $$ >{here}/boot; kill -9 $PPID\"]\n"
        );
        fs::write(dir.path().join("agent.toml"), config).unwrap();
        let mut device = Self { site, dir, url: format!("https://{address}"), agent: None };
        device.start();
        device
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&mut self) {
        self.stop();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("agent.log")).unwrap();
        let mut program = Command::new(site::agent());
        program.args(["device", "--server", &self.url, "--ca-file"]);
        program.arg(self.site.data_dir(0).join("device-ca.pem"));
        program.arg("--token-file").arg(self.path("token")).arg("--state-dir").arg(self.path("state"));
        program.arg("--config").arg(self.path("agent.toml")).stdin(Stdio::null()).stderr(log);
        self.agent = Some(program.spawn().unwrap());
    }

    /// Ends the agent as a power cut would.
    fn stop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            // It may have ended already.
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// Waits until the agent ends by itself.
    fn ends(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().unwrap();
        let log = self.path("agent.log");
        let mut ended = None;
        for _ in 0..3000 {
            ended = agent.try_wait().unwrap();
            if ended.is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        ended.unwrap_or_else(|| panic!("the agent does not end: {}", fs::read_to_string(log).unwrap()))
    }

    /// The name of the device, once the server has heard of it.
    fn name(&self) -> String {
        wait_long_for("an enrolment request", || {
            let found = self.site.admin().get("/api/v1/enrollmentrequests").expect(200);
            found["items"][0]["metadata"]["name"].as_str().map(str::to_owned)
        })
    }

    fn get(&self, name: &str) -> Value {
        self.site.admin().get(&format!("/api/v1/devices/{name}")).expect(200)
    }

    /// Gives the device a spec with these files; returns its version.
    fn wants(&self, name: &str, files: &[(&str, &str)]) -> String {
        let inline: Vec<_> = files
            .iter()
            .map(|(file, content)| json!({"path": self.path("files").join(file), "content": content}))
            .collect();
        let spec = json!({"config": [{"name": "files", "inline": inline}]});
        let device = json!({"metadata": {"name": name}, "spec": spec});
        let changed = self.site.admin().put(&format!("/api/v1/devices/{name}"), &device).expect(200);
        changed["metadata"]["annotations"]["renderedVersion"].as_str().unwrap().to_owned()
    }

    /// Waits for a status of the device, such as `updated`.
    fn becomes(&self, name: &str, status: &str, wanted: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..3000 {
            last = self.get(name);
            if last["status"][status]["status"] == wanted {
                return last;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("{status} is not {wanted}: {last:#}\n{}", self.read("agent.log"));
    }

    fn runs(&self, name: &str, version: &str) {
        wait_long_for(&format!("version {version} to run"), || {
            let device = self.becomes(name, "updated", "UpToDate");
            (device["status"]["config"]["renderedVersion"] == version).then_some(())
        });
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn hook(&self, hook: &str, script: &str) {
        let folder = self.path("hooks").join(hook);
        fs::create_dir_all(&folder).unwrap();
        let command = json!([{"run": ["sh", "-c", script], "timeout": "60s"}]);
        fs::write(folder.join("10-test.yaml"), command.to_string()).unwrap();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop();
    }
}

fn a_device_follows_its_spec_and_leaves_what_fails(on: Backend) {
    let mut device = Device::new(on, &[], true);
    let name = device.name();
    device.becomes(&name, "updated", "UpToDate");
    let first = device.wants(&name, &[("a", "one"), ("b/c", "one")]);
    device.runs(&name, &first);
    assert_eq!((device.read("files/a"), device.read("files/b/c")), ("one".to_owned(), "one".to_owned()));
    assert_eq!(device.get(&name)["status"]["summary"]["status"], "Online");

    let tries = device.path("tries");
    device.hook("afterUpdating", &format!("echo x >>{}; echo too hot; exit 3", tries.display()));
    let second = device.wants(&name, &[("a", "two"), ("d", "two")]);
    let failed = wait_long_for("the update to fail", || {
        let found = device.becomes(&name, "updated", "OutOfDate");
        found["status"]["updated"]["info"].as_str().filter(|info| info.contains("too hot")).map(str::to_owned)
    });
    assert!(failed.contains("afterUpdating"), "{failed}");
    assert_eq!((device.read("files/a"), device.read("files/b/c")), ("one".to_owned(), "one".to_owned()));
    assert!(!device.path("files/d").exists());
    assert_eq!(device.get(&name)["status"]["config"]["renderedVersion"], first.as_str());

    device.start();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(device.read("tries").lines().count(), 1, "version {second} is tried once");
    let info = device.get(&name)["status"]["updated"]["info"].as_str().unwrap().to_owned();
    assert!(info.contains("too hot"), "{info}");

    device.hook("afterUpdating", "true");
    let third = device.wants(&name, &[("a", "three")]);
    device.runs(&name, &third);
    assert_eq!(device.read("files/a"), "three");
    assert!(!device.path("files/b/c").exists(), "it is not in the spec any more");
}

fn an_update_ends_without_its_server(on: Backend) {
    let mut device = Device::new(on, &[], true);
    let name = device.name();
    let (begun, go) = (device.path("begun"), device.path("go"));
    device.hook(
        "afterUpdating",
        &format!("touch {}; until test -e {}; do sleep 0.05; done", begun.display(), go.display()),
    );
    let version = device.wants(&name, &[("a", "one")]);
    wait_long_for("the hook", || begun.exists().then_some(()));
    device.site.servers[0].kill();
    device.stop();
    fs::write(&go, "").unwrap();
    device.start();
    let record = format!("\"current\":{{\"version\":\"{version}\"");
    wait_long_for("the end of the update", || {
        device.read("state/device.json").contains(&record).then_some(())
    });
    assert_eq!(device.read("files/a"), "one");
    device.site.restart(0);
    device.runs(&name, &version);
}

/// Each file is the old or the new one whenever the agent dies, and the last version is reached.
fn an_agent_that_is_killed_at_random_leaves_whole_files(on: Backend) {
    let mut device = Device::new(on, &[], true);
    let name = device.name();
    device.hook("beforeUpdating", "true");
    let rounds =
        std::env::var("WARDROOM_FAULT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let files = ["a", "b", "c/d"];
    let (mut version, mut contents) = (String::new(), vec![String::new()]);
    for round in 0..rounds {
        let wanted = format!("version {round} ").repeat(2000);
        version = device.wants(&name, &files.map(|file| (file, wanted.as_str())));
        contents.push(wanted);
        // Spread over the time that an update takes.
        thread::sleep(Duration::from_millis((round as u64 * 37) % 230));
        device.stop();
        for file in files {
            let content = device.read(&format!("files/{file}"));
            assert!(contents.contains(&content), "round {round}: {file} has {} bytes", content.len());
        }
        device.start();
    }
    device.runs(&name, &version);
    for file in files {
        assert_eq!(Some(&device.read(&format!("files/{file}"))), contents.last());
    }
    let left = Command::new("find").arg(device.path("files")).args(["-name", ".wardroom*"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

fn a_requested_reboot_runs_its_hooks_once(on: Backend) {
    let mut device = Device::new(on, &[], true);
    let name = device.name();
    device.becomes(&name, "summary", "Online");
    let log = device.path("hooks.log");
    for hook in ["beforeRebooting", "afterRebooting"] {
        device.hook(hook, &format!("echo {hook} >>{}", log.display()));
    }
    device.site.admin().post(&format!("/api/v1/devices/{name}/actions/reboot"), &json!({})).expect(200);
    let ended = device.ends();
    assert_eq!(ended.signal(), Some(9), "the reboot ends the agent");
    device.becomes(&name, "summary", "Rebooting");
    device.start();
    device.becomes(&name, "summary", "Online");
    device.start();
    device.becomes(&name, "summary", "Online");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(device.read("hooks.log"), "beforeRebooting\nafterRebooting\n");
}

fn a_revoked_device_stays_out_until_it_is_approved_again(on: Backend) {
    let mut device = Device::new(on, &[], true);
    let name = device.name();
    device.becomes(&name, "summary", "Online");
    device.site.admin().post(&format!("/api/v1/devices/{name}/revoke"), &json!({})).expect(200);
    for _ in 0..2 {
        let ended = device.ends();
        assert_eq!(ended.code(), Some(1), "{}", device.read("agent.log"));
        assert!(device.read("agent.log").contains("refuses the certificate"));
        device.start();
    }
    assert_eq!(device.ends().code(), Some(1));
    let approval = format!("/api/v1/enrollmentrequests/{name}/approval");
    device.site.admin().put(&approval, &json!({"approved": true})).expect(200);
    device.start();
    let version = device.wants(&name, &[("a", "one")]);
    device.runs(&name, &version);
}

fn a_denied_device_stays_out(on: Backend) {
    let mut device = Device::new(on, &[], false);
    let name = device.name();
    let approval = format!("/api/v1/enrollmentrequests/{name}/approval");
    device.site.admin().put(&approval, &json!({"approved": false})).expect(200);
    device.start();
    assert_eq!(device.ends().code(), Some(1));
    assert!(device.read("agent.log").contains("denied"), "{}", device.read("agent.log"));
    assert_eq!(device.site.admin().get(&format!("/api/v1/devices/{name}")).status, 404);
}

fn a_decommissioned_device_is_wiped_and_stays_gone(on: Backend) {
    let mut device = Device::new(on, &[], true);
    let name = device.name();
    let version = device.wants(&name, &[("a", "one")]);
    device.runs(&name, &version);
    device.site.admin().put(&format!("/api/v1/devices/{name}/decommission"), &json!({})).expect(200);
    for _ in 0..2 {
        let ended = device.ends();
        assert_eq!(ended.code(), Some(0), "{}", device.read("agent.log"));
        let names: Vec<_> =
            fs::read_dir(device.path("state")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == "decommissioned" || name == "agent.lock"), "{names:?}");
        device.becomes(&name, "lifecycle", "Decommissioned");
        device.start();
    }
    let requests = device.site.admin().get("/api/v1/enrollmentrequests").expect(200);
    assert!(requests["items"].as_array().unwrap().len() <= 1, "it does not enrol again");
}

/// The shortest certificate is one of a minute.
#[test]
fn a_certificate_is_renewed_before_it_ends() {
    let device = Device::new(Backend::Sqlite, &[("WARDROOM_DEVICES_CERTIFICATE_MINUTES", "1")], true);
    let name = device.name();
    device.becomes(&name, "summary", "Online");
    let until = device.get(&name)["status"]["certificateExpiresAt"].clone();
    let certificate = device.read("state/device.crt");
    wait_long_for("a new certificate", || {
        (device.get(&name)["status"]["certificateExpiresAt"] != until).then_some(())
    });
    wait_for("the agent to store it", || (device.read("state/device.crt") != certificate).then_some(()));
    let version = device.wants(&name, &[("a", "one")]);
    device.runs(&name, &version);
}
