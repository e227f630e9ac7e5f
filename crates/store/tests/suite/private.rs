//! A PostgreSQL of a test's own, to stop, start and follow, beside the one that all share.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::database::connect;

const PASSWORD: &str = "only-for-this-test";

/// A server with its files; it ends with this.
pub(crate) struct Private {
    bin: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) address: String,
}

impl Private {
    /// An empty one.
    pub(crate) async fn create() -> Self {
        let created = Self::prepare(bin().await);
        std::fs::write(created.folder.path().join("password"), PASSWORD).unwrap();
        created.run(
            "initdb",
            "--username wardroom --auth password --encoding UTF8 --locale C --pwfile password",
        );
        created.start();
        created
    }

    /// One that follows this one.
    pub(crate) fn standby(&self) -> Self {
        let standby = Self::prepare(self.bin.clone());
        let source = format!("--write-recovery-conf --checkpoint fast --dbname {}", url(&[self]));
        standby.run("pg_basebackup", &source);
        standby.start();
        standby
    }

    fn prepare(bin: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            let given = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(given.unwrap().success());
        }
        // Below those that the system hands out, so that no other program takes it while this one is stopped.
        let mut ports = (0..12_000).map(|step| 20_000 + (std::process::id() + 37 * step) % 12_000);
        let free = |port: &u32| TcpListener::bind(format!("127.0.0.1:{port}")).is_ok();
        let address = format!("127.0.0.1:{}", ports.find(free).unwrap());
        Self { bin, folder, address }
    }

    pub(crate) fn start(&self) {
        let port = self.address.rsplit_once(':').unwrap().1;
        let options = format!("-p {port} -h 127.0.0.1 -k '' -c shared_buffers=16MB");
        self.control(&["--wait", "--log", "log", "--options", &options, "start"]);
    }

    pub(crate) fn stop(&self) {
        self.control(&["--mode", "fast", "stop"]);
    }

    /// Stops all its processes where they are: clients wait, connected or not.
    pub(crate) fn pause(&self) {
        let pids = self.processes();
        signal("-STOP", &pids);
        // Those that were started meanwhile.
        signal("-STOP", &self.processes());
    }

    /// Lets its processes go on.
    pub(crate) fn go_on(&self) {
        signal("-CONT", &self.processes());
    }

    /// The server's processes: the first one, and those it started.
    fn processes(&self) -> Vec<String> {
        let file = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap();
        let first = file.lines().next().unwrap().trim().to_owned();
        let parent = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
        };
        let all = std::fs::read_dir("/proc").unwrap();
        let all = all.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let mut pids: Vec<_> = all.filter(|pid| parent(pid).as_ref() == Some(&first)).collect();
        pids.insert(0, first);
        pids
    }

    /// From its next start on it is a standby, without a primary.
    pub(crate) fn demote(&self) {
        std::fs::write(self.folder.path().join("data/standby.signal"), "").unwrap();
    }

    /// Runs SQL on it.
    pub(crate) async fn execute(&self, sql: &str) {
        connect(&url(&[self])).await.batch_execute(sql).await.unwrap();
    }

    /// Waits until a question is answered with yes.
    pub(crate) async fn wait_until(&self, sql: &str) {
        let client = connect(&url(&[self])).await;
        for _ in 0..1500 {
            if client.query_one(sql, &[]).await.unwrap().get(0) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("waited in vain for {sql}");
    }

    fn control(&self, args: &[&str]) {
        self.call("pg_ctl", args);
    }

    fn run(&self, program: &str, args: &str) {
        self.call(program, &args.split(' ').collect::<Vec<_>>());
    }

    /// It writes into files: a started process would keep a pipe open.
    fn call(&self, program: &str, args: &[&str]) {
        let folder = self.folder.path();
        let program = self.bin.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let said = std::fs::File::create(folder.join("said")).unwrap();
        command.args(args).args(["--pgdata", "data"]).current_dir(folder);
        let ended = command.stdout(said.try_clone().unwrap()).stderr(said).status().unwrap();
        let said = || std::fs::read_to_string(folder.join("said")).unwrap();
        assert!(ended.success(), "{command:?}: {}", said());
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if self.folder.path().join("data/postmaster.pid").exists() {
            self.go_on();
            self.control(&["--mode", "immediate", "stop"]);
        }
    }
}

/// Some of the processes may have ended by themselves.
fn signal(signal: &str, pids: &[String]) {
    let _ = Command::new("kill").arg(signal).args(pids).stderr(std::process::Stdio::null()).status().unwrap();
}

/// How to reach these, in their order.
pub(crate) fn url(servers: &[&Private]) -> String {
    let addresses: Vec<_> = servers.iter().map(|server| server.address.as_str()).collect();
    format!("postgres://wardroom:{PASSWORD}@{}/postgres", addresses.join(","))
}

/// The programs of the server that all tests share.
async fn bin() -> PathBuf {
    let shared = std::env::var("WARDROOM_TEST_POSTGRES")
        .expect("WARDROOM_TEST_POSTGRES names no PostgreSQL to test with: run ./dev test");
    let question = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
    connect(&shared).await.query_one(question, &[]).await.unwrap().get::<_, String>(0).into()
}

/// PostgreSQL refuses to run as root.
fn is_root() -> bool {
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}
