//! What goes on of a command that is over for its task: its agent was killed, or it would not end when it was told to.
//! It must have ended before anything else is begun, or two would erase, or drain, at once.

use std::{fs, io, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long an agent that starts waits for what is left: a process that waits for a disk ends when that answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a command may take to end by itself once it is told to.
const GRACE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// Writes down which group a command runs in, and when it began: numbers are used again.
pub(super) fn note(mark: &Path, group: u32) -> io::Result<()> {
    let began = began(group).ok_or(io::ErrorKind::NotFound)?;
    fs::write(mark, format!("{group} {began} {}", boot()?))
}

/// The command has ended; an uninstall takes the mark along.
pub(super) fn over(mark: &Path) {
    if let Err(error) = fs::remove_file(mark)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, mark = %mark.display(), "what ran cannot be forgotten");
    }
}

/// Ends what was begun before, if it goes on, and waits until it has ended. An error: it goes on after all that patience.
pub(super) async fn end(mark: &Path, patience: Duration) -> Result<(), String> {
    let Ok(text) = fs::read_to_string(mark) else { return Ok(()) };
    if let Some(group) = left(&text) {
        let number = group.as_raw_nonzero();
        tracing::warn!(group = number, "what was begun before goes on: it is ended");
        let mut waited = Duration::ZERO;
        while goes_on(group) {
            let signal = if waited < GRACE { Signal::TERM } else { Signal::KILL };
            let told = kill_process_group(group, signal);
            if waited >= patience {
                let why = told.err().map(|error| format!(" ({error})")).unwrap_or_default();
                return Err(format!(
                    "process group {number}, begun before, goes on and cannot be ended{why}"
                ));
            }
            tokio::time::sleep(PAUSE).await;
            waited += PAUSE;
        }
    }
    over(mark);
    Ok(())
}

/// The group that was written down, unless it is another one by now. A group outlives its first process, and no other
/// process gets that number meanwhile.
fn left(text: &str) -> Option<Pid> {
    let mut words = text.split_whitespace();
    let (group, then, boot_then) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let is_same = began(group).is_none_or(|now| now == then) && boot().ok()? == boot_then;
    let group = Pid::from_raw(i32::try_from(group).ok()?)?;
    (is_same && goes_on(group)).then_some(group)
}

/// Whether anything of a group still runs. What has ended and was not waited for, which may be for good where the first
/// process of a machine waits for nobody, does nothing any more.
fn goes_on(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| stat(&process.file_name().to_string_lossy())).any(|stat| {
        let mut fields = stat.split_whitespace();
        let state = fields.next();
        !matches!(state, Some("Z" | "X")) && fields.nth(1) == Some(&group)
    })
}

/// When a process began, in ticks since the machine did.
fn began(process: u32) -> Option<String> {
    stat(&process.to_string())?.split_whitespace().nth(19).map(str::to_owned)
}

/// What is known of a process, from its state on: the name of its program comes before that, and may hold anything.
fn stat(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, fields)| fields.to_owned())
}

/// Names this run of the machine.
fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
