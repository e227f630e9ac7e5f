//! The agent of a GPU node as a program of its own, beside a server.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::json;

use crate::support::{Backend, Site, on_both, site, wait_long_for};

on_both! {
    an_agent_that_dies_in_the_middle_of_a_task_does_it_again,
}

/// An agent that runs until it is killed.
struct Agent(Child);

impl Agent {
    /// Starts the agent of a state folder, with a command for the drain.
    fn start(site: &Site, dir: &Path, drain: &str) -> Self {
        let config = dir.join("agent.toml");
        let command = json!(["sh", "-c", drain]);
        fs::write(&config, format!("[tasks.\"node.drain\"]\ncommand = {command}\n")).unwrap();
        let mut program = Command::new(site::agent());
        program.args(["gpu-node", "--server", &format!("http://{}", site.servers[0].address)]);
        program.arg("--token-file").arg(dir.join("token"));
        program.arg("--state-dir").arg(dir.join("state"));
        program.arg("--config").arg(&config).stdin(Stdio::null());
        Self(program.spawn().unwrap())
    }

    /// Kills it, as the kernel does when memory runs out.
    fn die(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn an_agent_that_dies_in_the_middle_of_a_task_does_it_again(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_LIVENESS_DEFAULT_INTERVAL_SECONDS", "5")]);
    let dir = tempfile::tempdir().unwrap();
    let made = site.admin().post("/api/v1/gpu-nodes", &json!({"hostname": "gpu-1"})).expect(201);
    let node = format!("/api/v1/gpu-nodes/{}", made["data"]["id"].as_str().unwrap());
    fs::write(dir.path().join("token"), made["data"]["token"].as_str().unwrap()).unwrap();
    let becomes = |state: &str| {
        wait_long_for(&format!("the node to become {state}"), || {
            (site.admin().get(&node).expect(200)["data"]["status"] == state).then_some(())
        });
    };
    let begun = dir.path().join("begun");
    let stuck = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", begun.display());
    let agent = Agent::start(&site, dir.path(), &stuck);
    becomes("active");
    site.admin().post(&format!("{node}/actions/retire"), &json!({})).expect(200);
    let drain = wait_long_for("the drain to begin", || fs::read_to_string(&begun).ok());
    agent.die();
    let task = site.admin().get(&format!("{node}/lifecycle")).expect(200)["data"]["task"].clone();
    assert_eq!(task["state"], "dispatched", "the server has not heard of it");
    // Its command continues by itself, and must have ended when the task starts again.
    // A zombie has no program any more.
    let goes_on = || fs::read_link(format!("/proc/{}/exe", drain.trim())).is_ok();
    assert!(goes_on());
    // If two run at once, one refuses, and the node would not be retired.
    let alone = format!("test ! -e /proc/{}/exe || exit 69", drain.trim());
    let _agent = Agent::start(&site, dir.path(), &alone);
    becomes("retired");
    assert!(!goes_on());
}
