//! A fleet of real agents: a template that breaks devices stops at the threshold, and a rollback cures them.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Backend, Site, device::open_token, on_both, site, wait_for, wait_long_for};

on_both! {
    a_template_that_breaks_devices_is_stopped_and_rolled_back,
}

/// An agent that is ended with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(site: &Site, dir: &Path, token: &str) -> Agent {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("token"), token).unwrap();
    fs::write(dir.join("boot"), "boot-1").unwrap();
    let here = dir.display();
    let config = format!(
        "[hooks]\nvendor = \"{here}/none\"\nlocal = \"{here}/hooks\"\n[os]\nboot_id = \"{here}/boot\"\n\
         timeout_seconds = 20\nreboot = [\"sh\", \"-c\", \"exit 1\"]\n"
    );
    fs::write(dir.join("agent.toml"), config).unwrap();
    let mut program = Command::new(site::agent());
    let url = format!("https://{}", site.servers[0].device_address);
    program.args(["device", "--server", &url, "--ca-file"]).arg(site.data_dir(0).join("device-ca.pem"));
    program.arg("--token-file").arg(dir.join("token")).arg("--state-dir").arg(dir.join("state"));
    program.arg("--config").arg(dir.join("agent.toml")).stdin(Stdio::null());
    program.stderr(fs::File::create(dir.join("agent.log")).unwrap());
    Agent(program.spawn().unwrap())
}

/// A template with files, by their names and contents.
fn template(dir: &Path, files: &[(&str, &str)]) -> Value {
    let inline: Vec<_> =
        files.iter().map(|(file, content)| json!({"path": dir.join(file), "content": content})).collect();
    json!({"spec": {"config": [{"name": "files", "inline": inline}]}})
}

fn becomes(site: &Site, state: &str) -> Value {
    wait_long_for(state, || {
        let fleet = site.admin().get("/api/v1/fleets/edge").expect(200);
        (fleet["status"]["rollout"]["state"] == state).then_some(fleet)
    })
}

fn a_template_that_breaks_devices_is_stopped_and_rolled_back(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    // A file cannot take the place of a folder that has something in it.
    fs::create_dir_all(files.join("folder/inside")).unwrap();
    let _agents = ["one", "two"].map(|name| start(&site, &dir.path().join(name), &token));
    let listed = || {
        site.admin().get("/api/v1/devices?fieldSelector=status.summary=Online").expect(200)["items"].clone()
    };
    wait_long_for("two agents", || (listed().as_array().unwrap().len() == 2).then_some(()));

    let fleet = |files_of: Value| {
        let policy = json!({"batches": [{"limit": 1}]});
        let selector = json!({"matchExpressions": [{"key": "site", "operator": "DoesNotExist"}]});
        json!({"metadata": {"name": "edge"}, "spec": {"selector": selector, "template": files_of, "rolloutPolicy": policy}})
    };
    let good = template(&files, &[("motd", "good")]);
    site.admin().post("/api/v1/fleets", &fleet(good.clone())).expect(201);
    let done = becomes(&site, "Inactive");
    wait_for("the count of both", || {
        let fleet = site.admin().get("/api/v1/fleets/edge").expect(200);
        (fleet["status"]["rollout"]["updated"] == 2).then_some(())
    });
    assert_eq!(done["spec"]["templateVersion"], json!("1"));
    assert_eq!(fs::read_to_string(files.join("motd")).unwrap(), "good");

    let bad = template(&files, &[("motd", "bad"), ("folder", "not a file")]);
    site.admin().put("/api/v1/fleets/edge", &fleet(bad)).expect(200);
    becomes(&site, "Suspended");
    let why = site.admin().get("/api/v1/resources/fleet/edge/why").expect(200);
    let blockers = why["data"][0]["blockers"].as_array().unwrap();
    let cause = blockers.last().unwrap()["what"].as_str().unwrap();
    let items = listed();
    let names: Vec<_> =
        items.as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert!(cause.contains(&format!("device {} failed", names[0])) && cause.contains("folder"), "{cause}");
    let version = |at: usize| items[at]["metadata"]["annotations"]["renderedVersion"].clone();
    assert_eq!((version(0), version(1)), (json!("2"), json!("1")), "the other device was spared");
    assert_eq!(fs::read_to_string(files.join("motd")).unwrap(), "good", "the device rolled back");

    site.admin().post("/api/v1/fleets/edge/actions/rollback", &json!({"comment": "a folder"})).expect(200);
    becomes(&site, "Inactive");
    for name in names {
        let device = site.admin().get(&format!("/api/v1/devices/{name}")).expect(200);
        assert_eq!(device["status"]["updated"]["status"], json!("UpToDate"), "{device}");
        assert_eq!(device["metadata"]["annotations"]["templateVersion"], json!("3"));
    }
}
