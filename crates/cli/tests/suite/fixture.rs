//! A server in a folder of its own, and commands that talk to it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wardroom");

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; it ends with the test.
pub(crate) struct Server {
    pub(crate) dir: TempDir,
    pub(crate) url: String,
    child: Child,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with these settings.
    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (child, url) = serve(dir.path(), "127.0.0.1:0", settings);
        Self { url, dir, child }
    }

    /// A server in this folder that speaks TLS.
    pub(crate) fn start_with_tls(dir: TempDir, certificate: &str, key: &str) -> Self {
        let settings = [("WARDROOM_SERVER_TLS_CERTIFICATE", certificate), ("WARDROOM_SERVER_TLS_KEY", key)];
        let (child, url) = serve(dir.path(), "127.0.0.1:0", &settings);
        Self { url, dir, child }
    }

    /// One that listens on every address of the machine.
    pub(crate) fn start_everywhere() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (child, url) = serve(dir.path(), "0.0.0.0:0", &[("WARDROOM_SERVER_INSECURE_HTTP", "true")]);
        Self { url: url.replace("0.0.0.0", "127.0.0.1"), dir, child }
    }

    /// Ends the server at once and starts another at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let (child, _) = serve(self.dir.path(), self.url.strip_prefix("http://").unwrap(), &[]);
        self.child = child;
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end in good order, and waits.
    pub(crate) fn stop(&mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(asked.success() && self.child.wait().unwrap().success());
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("wardroom-data")
    }

    /// A command beside the server, with its admin token lying where commands look for it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(self.dir.path());
        command.env("WARDROOM_SERVER_URL", &self.url).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments))
    }

    /// Runs a command that succeeds, and gives what it wrote.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).success()
    }

    /// Registers a node, and gives its id.
    pub(crate) fn node(&self, mac: &str, more: &[&str]) -> String {
        let made = self.ok(&[&["node", "create", "--mac", mac, "-o", "name"], more].concat());
        made.trim().strip_prefix("node/").unwrap().to_owned()
    }

    /// Starts a command that goes on.
    pub(crate) fn watch(&self, arguments: &[&str]) -> Watched {
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Watched { lines: lines(out), notes: lines(err), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(dir: &Path, listen: &str, settings: &[(&str, &str)]) -> (Child, String) {
    let mut command = program(dir);
    // Sites of tests are on this machine.
    command.env("WARDROOM_GPU_NODES_ALLOW_LOCAL_ADDRESSES", "true").envs(settings.iter().copied());
    command.args([
        "serve",
        "--listen",
        listen,
        "--boot-listen",
        "",
        "--device-listen",
        "",
        "--data-dir",
        "wardroom-data",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let said = lines(child.stdout.take().unwrap());
    let first = said.recv_timeout(PATIENCE).expect("the server says where it listens");
    (child, first.strip_prefix("wardroom listens on ").unwrap().to_owned())
}

/// The program in a folder, without what the caller's environment says.
pub(crate) fn program(dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WARDROOM_") {
            command.env_remove(name);
        }
    }
    // The contexts of the person who runs the tests stay out of them.
    command.env("WARDROOM_CONTEXTS", dir.join("contexts.json"));
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// What a command wrote, and how it ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(mut command: Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Ended with this code and said all of this.
    pub(crate) fn says(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        for text in texts {
            assert!(self.err.contains(text), "{text:?} is missing in {}", self.err);
        }
    }
}

/// A command that goes on until the test ends it.
pub(crate) struct Watched {
    lines: Receiver<String>,
    notes: Receiver<String>,
    child: Child,
}

impl Watched {
    /// The next line that has this text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        with(&self.lines, text)
    }

    /// Presses Ctrl-C, and returns the exit code.
    pub(crate) fn interrupted(&mut self) -> Option<i32> {
        let pressed = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(pressed.success());
        self.child.wait().unwrap().code()
    }

    /// The next line on standard error that has this text.
    pub(crate) fn note_with(&self, text: &str) -> String {
        with(&self.notes, text)
    }
}

fn with(lines: &Receiver<String>, text: &str) -> String {
    loop {
        let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line with {text:?} came"));
        if line.contains(text) {
            return line;
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(from);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            if sender.send(line.trim_end().to_owned()).is_err() {
                // The writer must not be stopped by a reader that left.
                let _ = reader.read_to_end(&mut Vec::new());
                return;
            }
            line.clear();
        }
    });
    receiver
}
