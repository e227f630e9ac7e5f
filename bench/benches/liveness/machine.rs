//! The machine, as the system tells of it.

use std::fs;

use crate::fleet::Where;

/// What a number was measured on.
pub(crate) fn describe() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().next().unwrap_or_default().to_owned();
    format!("machine: {cores} × {}; {memory}", model.trim_start_matches([':', '\t', ' ']))
}

/// Memory of this process that is there, not merely asked for.
pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Processor time of this process and, with PostgreSQL, of all processes of that server.
pub(crate) struct Processor {
    postmaster: Option<u32>,
}

impl Processor {
    pub(crate) async fn new(at: &Where) -> Self {
        let Where::Postgres(admin) = at else { return Self { postmaster: None } };
        let (client, connection) = tokio_postgres::connect(admin, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap();
        let backend: i32 = row.get(0);
        Self { postmaster: stat(&backend.to_string()).map(|stat| stat.parent) }
    }

    pub(crate) fn seconds(&self) -> f64 {
        let own = stat("self").unwrap().ticks;
        let processes =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let processes = processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let server =
            processes.filter_map(|name| stat(&name)).filter(|stat| Some(stat.parent) == self.postmaster);
        // The kernel counts in hundredths on every machine that this runs on.
        (own + server.map(|stat| stat.ticks).sum::<u64>()) as f64 / 100.0
    }
}

struct Stat {
    parent: u32,
    ticks: u64,
}

fn stat(process: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(Stat { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}
