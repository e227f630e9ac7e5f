//! Runs commands with a time limit and a limit on kept output.

use std::{collections::VecDeque, fmt, path::Path, process::Stdio, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};
use wardroom_api::gpu_node::agent::Detail;

use crate::orphan;

/// How much of a command's output is kept: its end.
pub(crate) const MOST: usize = 12 << 10;

/// The prefix of lines that report the work on one thing: `detail: {"name": …, "method": …, "ok": …}`.
const DETAIL: &[u8] = b"detail:";

/// The longest such line, and how many are kept; failed ones first.
const MOST_LINE: usize = 4 << 10;
const MOST_DETAILS: usize = 256;

/// What to run: a program and its arguments, without a shell.
pub(crate) struct Program<'a> {
    pub(crate) command: &'a [String],
    pub(crate) environment: &'a [(&'a str, &'a str)],
    /// The folder to run in; that of the agent when absent.
    pub(crate) folder: Option<&'a Path>,
}

impl<'a> Program<'a> {
    pub(crate) const fn of(command: &'a [String]) -> Self {
        Self { command, environment: &[], folder: None }
    }
}

/// How a command ended.
pub(crate) enum Ran {
    /// The exit code, unless it was a signal, and the output.
    Exited(Option<i32>, Written),
    /// The output until it was ended.
    TooLong(Written),
    NotStarted(String),
}

/// A command and all processes it started. Dropping this ends all of them, not only the first: otherwise processes of a
/// script would continue to erase, or to hold a disk, after its task has ended. Only a process
/// that left the group on purpose, as a daemon does, is out of reach.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    /// The whole group has ended by itself.
    fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.take()
            && let Err(error) = kill_process_group(group, Signal::KILL)
            && error != Errno::SRCH
        {
            tracing::error!(group = group.as_raw_nonzero(), %error, "a command cannot be ended");
        }
    }
}

/// Starts the command only after a line on standard input. If the agent is killed before it has stored the process
/// group, the pipe closes and the command never starts.
const GATE: [&str; 4] = ["sh", "-c", r#"read -r go && exec "$@" </dev/null"#, "sh"];

/// Runs a program until it ends or the time limit is over. While it runs, its process group is stored at `mark`.
pub(crate) async fn run(asked: &Program<'_>, limit: Duration, mark: Option<&Path>) -> Ran {
    let gate = if mark.is_some() { GATE.as_slice() } else { &[] };
    let mut words = gate.iter().copied().chain(asked.command.iter().map(String::as_str));
    let Some(program) = words.next().filter(|_| !asked.command.is_empty()) else {
        return Ran::NotStarted("the command is empty".to_owned());
    };
    let mut command = Command::new(program);
    if let Some(folder) = asked.folder {
        command.current_dir(folder);
    }
    let child = command
        .args(words)
        .envs(asked.environment.iter().copied())
        .stdin(if mark.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Ran::NotStarted(format!("{program}: {error}")),
    };
    let group = Group::of(&child);
    if let Some(mark) = mark
        && let Some(Err(error)) = child.id().map(|id| orphan::note(mark, id))
    {
        return Ran::NotStarted(format!("cannot store the process group at {}: {error}", mark.display()));
    }
    if let Some(mut gate) = child.stdin.take()
        && let Err(error) = gate.write_all(b"\n").await
    {
        return Ran::NotStarted(format!("{program}: {error}"));
    }
    let (mut out, mut err) = (Pipe::default(), Pipe::default());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let work = async { tokio::join!(out.read(stdout), err.read(stderr), child.wait()).2 };
    let ended = tokio::time::timeout(limit, work).await;
    match ended {
        Ok(status) => {
            group.over();
            mark.into_iter().for_each(orphan::over);
            Ran::Exited(status.ok().and_then(|status| status.code()), Written::of(out, err))
        }
        // It was told to end, and its mark stays: the next command makes sure that it has ended.
        Err(_) => {
            drop(group);
            Ran::TooLong(Written::of(out, err))
        }
    }
}

/// The output of a command: its end, and the details from anywhere in it.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) details: Vec<Detail>,
    /// The first detail line that cannot be read.
    pub(crate) unreadable: Option<String>,
}

impl Written {
    pub(crate) fn only(text: String) -> Self {
        Self { text, details: Vec::new(), unreadable: None }
    }

    fn of(mut out: Pipe, mut err: Pipe) -> Self {
        out.end_line();
        err.end_line();
        let text = format!("{out}{err}");
        for detail in err.details {
            keep(&mut out.details, detail);
        }
        Self { text, details: out.details, unreadable: out.unreadable.or(err.unreadable) }
    }
}

/// Collects the output from a pipe. It reads to the end, so that the command never blocks, and keeps the end of the output
/// and all detail lines.
#[derive(Default)]
struct Pipe {
    tail: VecDeque<u8>,
    /// The start of the current line, up to the limit of a detail.
    line: Vec<u8>,
    details: Vec<Detail>,
    unreadable: Option<String>,
}

impl Pipe {
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 4096];
        while let Ok(count) = pipe.read(&mut buffer).await {
            if count == 0 {
                break;
            }
            self.tail.extend(&buffer[..count]);
            let over = self.tail.len().saturating_sub(MOST);
            self.tail.drain(..over);
            self.look(&buffer[..count]);
        }
    }

    fn look(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.grow(bytes);
    }

    /// Keeps one byte more than the limit, to recognise a line that is too long.
    fn grow(&mut self, bytes: &[u8]) {
        let room = (MOST_LINE + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Some(told) = line.strip_prefix(DETAIL) else { return };
        match serde_json::from_slice(told) {
            Ok(detail) if line.len() <= MOST_LINE => keep(&mut self.details, detail),
            Ok(_) | Err(_) => {
                let line = || String::from_utf8_lossy(&line).chars().take(200).collect();
                self.unreadable.get_or_insert_with(line);
            }
        }
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<_> = self.tail.iter().copied().collect();
        f.write_str(&String::from_utf8_lossy(&bytes))
    }
}

/// Keeps a detail. If there are too many, a failed one replaces a successful one.
fn keep(details: &mut Vec<Detail>, detail: Detail) {
    if details.len() < MOST_DETAILS {
        details.push(detail);
    } else if let Some(place) = details.iter_mut().find(|kept| kept.ok && !detail.ok) {
        *place = detail;
    }
}

/// Returns the output of a failed command, or how it ended if there is none.
pub(crate) fn complaint(code: Option<i32>, written: &str) -> String {
    match (last(written, 500), code) {
        (text, Some(code)) if text.is_empty() => format!("exit code {code}"),
        (text, None) if text.is_empty() => "ended by a signal".to_owned(),
        (text, _) => text,
    }
}

/// Returns the end of a text, at most so many bytes.
pub(crate) fn last(text: &str, most: usize) -> String {
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}
