//! A site: one server on SQLite, or two that share a PostgreSQL. They are real processes of the built program.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{database::Database, http::Api, wait_for};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

/// Settings of every server, unless a test overrides them: limits are for the tests of limits.
const SETTINGS: &[(&str, &str)] = &[
    ("WARDROOM_LIMITS_READ", "1000000"),
    ("WARDROOM_LIMITS_WRITE", "1000000"),
    ("WARDROOM_LIMITS_REPORT", "1000000"),
    ("WARDROOM_LIMITS_ANONYMOUS", "1000000"),
    ("WARDROOM_NODES_DISCOVER_PER_MINUTE", "1000000"),
    ("WARDROOM_GPU_NODES_ALLOW_LOCAL_ADDRESSES", "true"),
    ("WARDROOM_LOG_LEVEL", "warn"),
];

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) servers: Vec<Server>,
    pub(crate) database: Database,
    settings: Vec<(String, String)>,
    /// The token of the first administrator.
    pub(crate) token: String,
    turn: AtomicUsize,
    dir: tempfile::TempDir,
}

impl Site {
    /// A site with the default settings.
    pub(crate) fn start(backend: Backend) -> Self {
        Self::start_with(backend, &[])
    }

    /// A site with some settings, named as environment variables.
    pub(crate) fn start_with(backend: Backend, settings: &[(&str, &str)]) -> Self {
        let mut site = Self::alone(backend, settings);
        if backend == Backend::Postgres {
            site.servers.push(site.start_server(1));
        }
        site
    }

    /// A site of one server.
    pub(crate) fn alone(backend: Backend, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(backend, &dir.path().join("0"));
        let key = dir.path().join("server.key");
        let shared = [("WARDROOM_SERVER_KEY_FILE", key.to_str().unwrap())];
        let all = SETTINGS.iter().chain(&shared).chain(settings);
        let settings = all.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut site = Self {
            servers: Vec::new(),
            database,
            settings,
            token: String::new(),
            turn: AtomicUsize::new(0),
            dir,
        };
        // The first server makes the key and the token that the second one shares.
        site.servers.push(site.start_server(0));
        site.token = fs::read_to_string(site.dir.path().join("0/admin.token")).unwrap().trim().to_owned();
        site
    }

    fn start_server(&self, index: usize) -> Server {
        Server::start(self.command(index), &self.log_file(index))
            .unwrap_or_else(|log| panic!("a server did not start: {log}"))
    }

    /// The command that starts a server of this site.
    pub(crate) fn command(&self, index: usize) -> Command {
        self.command_over(index, self.database.url())
    }

    fn command_over(&self, index: usize, url: Option<&str>) -> Command {
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0", "--boot-listen", "127.0.0.1:0"]);
        command.env("WARDROOM_DEVICES_LISTEN", "127.0.0.1:0").arg("--data-dir");
        command.arg(self.dir.path().join(index.to_string()));
        if let Some(url) = url {
            command.args(["--database-url", url]);
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Where a server's files are.
    pub(crate) fn data_dir(&self, index: usize) -> PathBuf {
        self.dir.path().join(index.to_string())
    }

    /// Returns the log of a server.
    pub(crate) fn log(&self, index: usize) -> String {
        fs::read_to_string(self.log_file(index)).unwrap()
    }

    fn log_file(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{index}.log"))
    }

    /// Changes a setting for servers that start from now on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Starts a server again that was stopped or killed.
    pub(crate) fn restart(&mut self, index: usize) {
        self.servers[index] = self.start_server(index);
    }

    /// Starts a server again, which reaches the database by another URL.
    pub(crate) fn restart_over(&mut self, index: usize, url: &str) {
        self.servers[index].kill();
        let started = Server::start(self.command_over(index, Some(url)), &self.log_file(index));
        self.servers[index] = started.unwrap_or_else(|log| panic!("a server did not start: {log}"));
    }

    /// The next server in turn, as the administrator.
    pub(crate) fn admin(&self) -> Api {
        let index = self.turn.fetch_add(1, Ordering::Relaxed) % self.servers.len();
        self.admin_at(index)
    }

    /// A certain server, as the administrator; there may be only one.
    pub(crate) fn admin_at(&self, index: usize) -> Api {
        self.caller(index, Some(&self.token))
    }

    /// A certain server, with a token or without; there may be only one.
    pub(crate) fn caller(&self, index: usize, token: Option<&str>) -> Api {
        Api::new(self.servers[index % self.servers.len()].address, token)
    }

    /// The listener for machines, with an install token or without.
    pub(crate) fn machine(&self, token: Option<&str>) -> Api {
        let index = self.turn.fetch_add(1, Ordering::Relaxed) % self.servers.len();
        Api::new(self.servers[index].boot_address, token)
    }

    /// Makes a token and gives its id and secret.
    pub(crate) fn new_token(&self, create: &serde_json::Value) -> (String, String) {
        let made = self.admin().post("/api/v1/tokens", create).expect(201);
        let text = |field: &str| made["data"][field].as_str().unwrap().to_owned();
        (text("id"), text("secret"))
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) boot_address: SocketAddr,
    /// Where devices connect.
    pub(crate) device_address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts a server, or returns its error output.
    pub(crate) fn start(command: Command, log: &Path) -> Result<Self, String> {
        let log_file = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        Self::with_log(command, log_file.into()).map_err(|_| fs::read_to_string(log).unwrap())
    }

    /// Starts a server with this as its standard error, or gives how it ended instead.
    pub(crate) fn with_log(mut command: Command, log: Stdio) -> Result<Self, ExitStatus> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = |words: &str| {
            let line = lines.next()?;
            Some(line.strip_prefix(words).unwrap_or_else(|| panic!("unexpected: {line}")).parse().unwrap())
        };
        let addresses = [
            address("wardroom listens on http://"),
            address("machines boot from http://"),
            address("devices connect to https://"),
        ];
        match addresses {
            [Some(address), Some(boot_address), Some(device_address)] => {
                Ok(Self { address, boot_address, device_address, child })
            }
            _ => Err(child.wait().unwrap()),
        }
    }

    /// Ends the server as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end, as an init system would.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, written as `kill` takes it.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end of a server that was asked to end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the end of a server", || self.child.try_wait().unwrap())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The built program of the server and the command line.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| program("wardroom", "WARDROOM_TEST_BINARY"))
}

/// The built agent.
pub(crate) fn agent() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| program("wardroom-agent", "WARDROOM_TEST_AGENT"))
}

/// The built adapter.
pub(crate) fn adapter() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| program("wardroom-adapter", "WARDROOM_TEST_ADAPTER"))
}

/// The built fakes.
pub(crate) fn fakes() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| program("wardroom-fakes", "WARDROOM_TEST_FAKES"))
}

/// A program: where `./dev` says it is, or built here.
fn program(package: &str, variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| build(package), Into::into)
}

/// Builds the program of a package that has the same name.
fn build(package: &str) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", package, "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = command.current_dir(root).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{package} does not build");
    let messages = String::from_utf8(output.stdout).unwrap();
    let executable = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_program = message["target"]["name"] == package;
        message["executable"].as_str().filter(|_| is_program).map(PathBuf::from)
    });
    executable.unwrap()
}
