//! Writes log lines to standard error, from a thread of its own.
//!
//! What must stay true: a request never waits for the log and never fails with it. A line that finds the queue full or
//! cannot be written is dropped and counted.

use std::{
    io::{self, Write},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

/// Lines that may wait to be written.
const QUEUE: usize = 8192;

/// Lines that are written with one call at most.
const AT_ONCE: usize = 256;

/// How long the end of the process waits for lines that are not written yet.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Lines that were dropped since the process started; the log belongs to the process, and so does this count.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Returns how many lines were dropped since the process started.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

fn drop_lines(count: usize) {
    DROPPED.fetch_add(count as u64, Ordering::Relaxed);
}

/// Queues lines for the thread that writes them. Writing to it never fails and never blocks.
#[derive(Clone, Debug)]
pub struct Log {
    queue: SyncSender<Vec<u8>>,
}

/// Waits for the last lines when it is dropped, for a second at most.
#[derive(Debug)]
pub struct LastLines {
    log: Log,
    written: Receiver<()>,
}

impl Log {
    /// Starts a thread that writes the lines to `output`.
    ///
    /// # Errors
    /// The system refused to start a thread.
    pub fn to(output: impl Write + Send + 'static) -> io::Result<(Self, LastLines)> {
        let (queue, lines) = mpsc::sync_channel(QUEUE);
        let (flushed, written) = mpsc::sync_channel(1);
        thread::Builder::new().name("log".to_owned()).spawn(move || write(output, &lines, &flushed))?;
        let log = Self { queue };
        Ok((log.clone(), LastLines { log, written }))
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(line.to_vec()).is_err() {
            drop_lines(1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An empty line asks the thread to say that all lines before it are written.
const FLUSH: Vec<u8> = Vec::new();

impl Drop for LastLines {
    fn drop(&mut self) {
        if self.log.queue.try_send(FLUSH).is_ok() {
            // Standard error may be blocked; the process ends without the last lines then.
            let _ = self.written.recv_timeout(LAST_LINES);
        }
    }
}

/// Writes lines until no sender is left.
fn write(mut output: impl Write, lines: &Receiver<Vec<u8>>, flushed: &SyncSender<()>) {
    while let Ok(first) = lines.recv() {
        let (mut text, mut count, mut is_last) = (Vec::new(), 0, false);
        for line in std::iter::once(first).chain(lines.try_iter().take(AT_ONCE - 1)) {
            is_last |= line.is_empty();
            count += usize::from(!line.is_empty());
            text.extend_from_slice(&line);
        }
        if output.write_all(&text).and_then(|()| output.flush()).is_err() {
            drop_lines(count);
        }
        if is_last {
            // The end of the process waits for one such answer only.
            let _ = flushed.try_send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Takes one write for each permit, then fails.
    struct Output {
        permits: Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Output {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.permits.recv().map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
            let _ = self.written.send(text.to_vec());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_or_failing_output_costs_lines_and_no_time() {
        let (permit, permits) = channel();
        let (written, texts) = channel();
        let (mut log, last) = Log::to(Output { permits, written }).unwrap();
        log.write_all(b"first\n").unwrap();
        permit.send(()).unwrap();
        assert_eq!(texts.recv().unwrap(), b"first\n");

        // The output is blocked: the queue fills, then lines are dropped.
        for _ in 0..QUEUE + AT_ONCE + 10 {
            log.write_all(b"line\n").unwrap();
        }
        assert!(dropped() >= 10, "{}", dropped());

        // The output fails: all that wait are dropped too, and the end does not wait for them for long.
        drop(permit);
        drop(last);
        let before = dropped();
        log.write_all(b"late\n").unwrap();
        while dropped() == before {
            thread::yield_now();
        }
    }

    #[test]
    fn the_end_waits_for_the_last_lines() {
        let (permit, permits) = channel();
        let (written, texts) = channel();
        let (mut log, last) = Log::to(Output { permits, written }).unwrap();
        for _ in 0..2000 {
            permit.send(()).unwrap();
        }
        for _ in 0..1000 {
            log.write_all(b"line\n").unwrap();
        }
        drop(last);
        let lines: usize = texts.try_iter().map(|text| text.len() / 5).sum();
        assert_eq!(lines, 1000);
    }
}
