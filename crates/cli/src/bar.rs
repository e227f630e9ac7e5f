//! One line on a terminal that shows how far long work is. Without a terminal nothing is drawn.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthChar as _;

use crate::{
    colour,
    exit::{Code, failure},
    text,
};

/// How many places a bar has.
const PLACES: u64 = 28;

/// How often a line is drawn anew while nothing happens, so that its times go on.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// How wide a terminal is that does not say so.
const USUAL: usize = 80;

/// The last line of standard error. It is wiped when this is dropped.
pub(crate) struct Bar {
    is_live: bool,
}

impl Bar {
    pub(crate) fn start() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Self { is_live: std::io::stderr().is_terminal() && !is_dumb }
    }

    /// Whether anything is drawn.
    pub(crate) const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Draws a line in the place of the last one.
    pub(crate) fn draw(&self, line: &str) {
        if self.is_live {
            let line = cut(&text::clean(line), width_of(&std::io::stderr()).saturating_sub(1));
            self.write(&format!("\r\x1b[2K{line}"));
        }
    }

    /// Wipes the line, so that other output begins at its start.
    pub(crate) fn wipe(&self) {
        self.write("\r\x1b[2K");
    }

    fn write(&self, text: &str) {
        if self.is_live {
            let mut errors = std::io::stderr().lock();
            // The work does not depend on what is drawn.
            let _ = errors.write_all(text.as_bytes()).and_then(|()| errors.flush());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// A bar of which a part is full.
pub(crate) fn of(done: u64, all: u64) -> String {
    let full = done.min(all).saturating_mul(PLACES).checked_div(all).unwrap_or_default();
    let (full, rest) =
        (usize::try_from(full).unwrap_or_default(), usize::try_from(PLACES - full).unwrap_or_default());
    format!("{}{}", "━".repeat(full), "─".repeat(rest))
}

/// The width of a terminal.
pub(crate) fn width_of(terminal: &impl std::os::fd::AsFd) -> usize {
    let size = tcgetwinsize(terminal).map(|size| usize::from(size.ws_col));
    size.ok().filter(|width| *width > 0).unwrap_or(USUAL)
}

/// The part of a text that fits into a width.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut taken = 0;
    text.chars()
        .take_while(|character| {
            taken += character.width().unwrap_or_default();
            taken <= width
        })
        .collect()
}

/// Draws how long work takes, until it is done.
pub(crate) async fn while_done<T>(work: impl Future<Output = T>, line: impl Fn(Duration) -> String) -> T {
    let bar = Bar::start();
    let began = tokio::time::Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(TICK), if bar.is_live() => bar.draw(&line(began.elapsed())),
        }
    }
}

/// A time without parts that say nothing, such as 4m12s.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// Waits for work of the server. Ctrl-C ends the waiting, not the work: the message says so, and how to look at it.
pub(crate) async fn unless_interrupted<T>(
    wait: impl Future<Output = anyhow::Result<T>>,
    look: &str,
) -> anyhow::Result<T> {
    tokio::select! {
        waited = wait => waited,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            // The terminal shows ^C in front of the message.
            if colour::is_terminal() { crate::output::note(""); }
            Err(failure(Code::Interrupted, format!("no longer waiting; the work goes on at the server\nnext: `{look}` shows it")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{cut, length, of};

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        let full = |done, all| of(done, all).chars().filter(|place| *place == '━').count();
        assert_eq!([full(0, 16), full(8, 16), full(16, 16), full(99, 16), full(0, 0)], [0, 14, 28, 28, 0]);
    }

    #[test]
    fn a_line_fits_the_terminal() {
        assert_eq!(cut("abcdef", 3), "abc");
        assert_eq!(cut("漢字kanji", 3), "漢");
        assert_eq!(cut("ab", 10), "ab");
    }

    #[test]
    fn times_are_short() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (252, "4m12s"), (3600, "1h00m"), (90_061, "25h01m")] {
            assert_eq!(length(Duration::from_secs(seconds)), text);
        }
    }
}
