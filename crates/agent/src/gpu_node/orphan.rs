//! What an agent that was killed left behind: its command goes on in a group of its own, and must be ended before the
//! same task is begun again, or two would erase, or drain, at once.

use std::{fs, io, path::Path, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process_group, test_kill_process_group},
};

/// How long what was killed is waited for: a process that waits for a disk ends when that answers.
const PATIENCE: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Writes down which group a command runs in, and when it began: numbers are used again.
pub(super) fn note(mark: &Path, group: u32) -> io::Result<()> {
    let began = began(group).ok_or(io::ErrorKind::NotFound)?;
    fs::write(mark, format!("{group} {began} {}", boot()?))
}

/// The command has ended.
pub(super) fn over(mark: &Path) {
    if let Err(error) = fs::remove_file(mark) {
        tracing::warn!(%error, mark = %mark.display(), "what ran cannot be forgotten");
    }
}

/// Ends what the agent before this one had begun, if it goes on.
pub(super) async fn end(mark: &Path) {
    let Ok(text) = fs::read_to_string(mark) else { return };
    if let Some(group) = left(&text) {
        tracing::warn!(
            group = group.as_raw_nonzero(),
            "a task of the agent before this one goes on: it is ended"
        );
        let mut killed = kill_process_group(group, Signal::KILL);
        for _ in 0..PATIENCE {
            if killed.is_err() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            killed = test_kill_process_group(group);
        }
        if killed != Err(Errno::SRCH) {
            tracing::error!(group = group.as_raw_nonzero(), ?killed, "it cannot be ended");
        }
    }
    over(mark);
}

/// The group that was written down, unless it is another one by now. A group outlives its first process, and no other
/// process gets that number meanwhile.
fn left(text: &str) -> Option<Pid> {
    let mut words = text.split_whitespace();
    let (group, then, boot_then) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let is_same = began(group).is_none_or(|now| now == then) && boot().ok()? == boot_then;
    let group = Pid::from_raw(i32::try_from(group).ok()?)?;
    (is_same && test_kill_process_group(group).is_ok()).then_some(group)
}

/// When a process began, in ticks since the machine did.
fn began(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program comes first, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

/// Names this run of the machine.
fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
