//! Commands that outlive their caller: the agent was killed, or the command did not end when it was told to.
//! They must have ended before another command starts, or two would erase or drain at once.

use std::{fs, io, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a starting agent waits for left-over processes: one that waits for a disk ends when the disk answers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a command may take to end after `SIGTERM`.
const GRACE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// Stores the process group of a command, with its start time, because numbers are reused.
pub(crate) fn note(mark: &Path, group: u32) -> io::Result<()> {
    let began = began(group).ok_or(io::ErrorKind::NotFound)?;
    fs::write(mark, format!("{group} {began} {}", boot()?))
}

/// Removes the mark after the command has ended. An uninstall may have removed it already.
pub(crate) fn over(mark: &Path) {
    if let Err(error) = fs::remove_file(mark)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, mark = %mark.display(), "cannot remove the mark of a finished command");
    }
}

/// Ends a command that was started before, and waits until it has ended. Fails if it still runs after the time limit.
pub(crate) async fn end(mark: &Path, patience: Duration) -> Result<(), String> {
    let Ok(text) = fs::read_to_string(mark) else { return Ok(()) };
    if let Some(group) = left(&text) {
        let number = group.as_raw_nonzero();
        tracing::warn!(group = number, "a command from before still runs; ending it");
        let mut waited = Duration::ZERO;
        while goes_on(group) {
            let signal = if waited < GRACE { Signal::TERM } else { Signal::KILL };
            let told = kill_process_group(group, signal);
            if waited >= patience {
                let why = told.err().map(|error| format!(" ({error})")).unwrap_or_default();
                return Err(format!(
                    "process group {number} of an earlier command still runs and cannot be ended{why}"
                ));
            }
            tokio::time::sleep(PAUSE).await;
            waited += PAUSE;
        }
    }
    over(mark);
    Ok(())
}

/// Returns the stored process group, unless its number now belongs to another one. A group outlives its first
/// process, and no other process gets that number meanwhile.
fn left(text: &str) -> Option<Pid> {
    let mut words = text.split_whitespace();
    let (group, then, boot_then) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let is_same = began(group).is_none_or(|now| now == then) && boot().ok()? == boot_then;
    let group = Pid::from_raw(i32::try_from(group).ok()?)?;
    (is_same && goes_on(group)).then_some(group)
}

/// Returns whether a process of the group still runs. Zombies do not count: where the first process of a machine waits
/// for no child, they stay for ever but do nothing.
fn goes_on(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| stat(&process.file_name().to_string_lossy())).any(|stat| {
        let mut fields = stat.split_whitespace();
        let state = fields.next();
        !matches!(state, Some("Z" | "X")) && fields.nth(1) == Some(&group)
    })
}

/// Returns the start of a process, in ticks since boot.
fn began(process: u32) -> Option<String> {
    stat(&process.to_string())?.split_whitespace().nth(19).map(str::to_owned)
}

/// Returns the fields of `/proc/PID/stat` from the state on: the program name before it may contain anything.
fn stat(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, fields)| fields.to_owned())
}

/// Returns the id of this boot.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
