//! The binary of the profile `dist` as a child process, and a no-op handler to compare with.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    _folder: Option<tempfile::TempDir>,
}

impl Server {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with(flags, &[])
    }

    /// A server with these settings, named as environment variables.
    pub(crate) fn start_with(flags: &[&str], settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self::start_so(folder.path(), flags, settings);
        server._folder = Some(folder);
        server
    }

    pub(crate) fn start_in(folder: &Path, flags: &[&str]) -> Self {
        Self::start_so(folder, flags, &[])
    }

    fn start_so(folder: &Path, flags: &[&str], settings: &[(&str, &str)]) -> Self {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist/wardroom");
        let binary = std::env::var_os("WARDROOM_TEST_BINARY").map_or(built, Into::into);
        let mut child = Command::new(binary)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--boot-listen",
                "",
                "--device-listen",
                "",
                "--data-dir",
            ])
            .arg(folder)
            .args(flags)
            .env("WARDROOM_LOG_LEVEL", "error")
            .env("WARDROOM_LIMITS_READ", "0")
            .env("WARDROOM_LIMITS_WRITE", "0")
            .env("WARDROOM_LIMITS_ANONYMOUS", "0")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let address = lines.find_map(|line| {
            line.strip_prefix("wardroom listens on http://").map(|address| address.parse().unwrap())
        });
        let token = std::fs::read_to_string(folder.join("admin.token")).unwrap().trim().to_owned();
        Self { child, address: address.unwrap(), token, _folder: None }
    }

    pub(crate) fn resident_megabytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same HTTP stack with a handler that does nothing, in a process of its own: this program again.
pub(crate) struct Noop {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// The word that makes this program such a server.
pub(crate) const NOOP: &str = "--noop-server";

impl Noop {
    pub(crate) fn start() -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program).arg(NOOP).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }
}

impl Drop for Noop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run_noop() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let post =
            |axum::Json(sent): axum::Json<serde_json::Value>| async move { axum::Json(sent.is_object()) };
        let router = axum::Router::new().route("/", axum::routing::get(|| async { "{}" }).post(post));
        axum::serve(listener, router).await.unwrap();
    });
}
