//! Fakes of Harbor, SPIRE and Kubernetes, as the processes they would be.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{Api, site};

/// The credentials of Harbor's administrator.
pub(crate) const PASSWORD: &str = "Administrator-of-Harbor-0123456789-0123456789";

/// A fake that runs, or that was killed.
pub(crate) struct Fake {
    child: Child,
    arguments: Vec<String>,
    /// The address of its control calls.
    pub(crate) address: SocketAddr,
}

impl Fake {
    /// A Harbor that keeps its state in a folder.
    pub(crate) fn harbor(dir: &Path) -> Self {
        let state = dir.join("harbor.json");
        Self::start(&["harbor", "--password", PASSWORD, "--state", state.to_str().unwrap()])
    }

    /// A SPIRE server that keeps its state and its socket in a folder.
    pub(crate) fn spire(dir: &Path) -> Self {
        let (state, socket) = (dir.join("spire.json"), socket(dir));
        Self::start(&["spire", "--state", state.to_str().unwrap(), "--socket", socket.to_str().unwrap()])
    }

    /// A Kubernetes that keeps its state in a folder, beside a `kubeconfig`.
    pub(crate) fn kubernetes(dir: &Path) -> Self {
        let (state, config) = (dir.join("kubernetes.json"), dir.join("kubeconfig"));
        let (state, config) = (state.to_str().unwrap(), config.to_str().unwrap());
        Self::start(&["kubernetes", "--state", state, "--kubeconfig", config])
    }

    fn start(arguments: &[&str]) -> Self {
        let mut arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let (child, address) = run(&arguments, "127.0.0.1:0");
        arguments.extend(["--listen".to_owned(), address.to_string()]);
        Self { child, arguments, address }
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts it on the same address with its saved state.
    pub(crate) fn restart(&mut self) {
        let at = self.arguments.len() - 2;
        self.child = run(&self.arguments[..at], &self.address.to_string()).0;
    }

    /// Sends a signal, written as `kill` takes it.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// All that it holds.
    pub(crate) fn state(&self) -> Value {
        Api::new(self.address, None).get("/_state").expect(200)
    }

    /// How often it did something.
    pub(crate) fn count(&self, effect: &str) -> i64 {
        Api::new(self.address, None).get("/_effects").expect(200)[effect].as_i64().unwrap_or(0)
    }

    /// Lets a node join with a token, if it is one.
    pub(crate) fn join(&self, token: &str) -> Option<String> {
        let reply =
            Api::new(self.address, None).post("/_attest", &json!({"type": "join_token", "token": token}));
        (reply.status == 200).then(|| reply.json()["id"].as_str().unwrap().to_owned())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Settings of servers that use both.
pub(crate) fn settings(harbor: &Fake, dir: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("WARDROOM_HARBOR_URL", format!("http://{}", harbor.address)),
        ("WARDROOM_HARBOR_USERNAME", "admin".to_owned()),
        ("WARDROOM_HARBOR_PASSWORD", PASSWORD.to_owned()),
        ("WARDROOM_SPIRE_ADDRESS", format!("unix://{}", socket(dir).display())),
        ("WARDROOM_SPIRE_AGENT_ADDRESS", "spire.example:8081".to_owned()),
        ("WARDROOM_SPIRE_TRUST_DOMAIN", "example.org".to_owned()),
    ]
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("spire.sock")
}

fn run(arguments: &[String], listen: &str) -> (Child, SocketAddr) {
    let mut command = Command::new(site::fakes());
    command.args(arguments).args(["--listen", listen]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line
        .trim()
        .trim_start_matches("http://")
        .parse()
        .unwrap_or_else(|_| panic!("the fake did not start: {line:?}"));
    (child, address)
}
