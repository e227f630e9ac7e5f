//! Changing several resources: asking before, and telling what became of each.

use clap::Args;

use crate::{
    exit::{self, Code, failure},
    output, text,
};

/// `--yes`.
#[derive(Args)]
pub(crate) struct Consent {
    /// Do not ask before several resources are changed.
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Asks before more than one is touched; without anybody to ask, `--yes` must say so.
    pub(crate) fn ask(&self, question: &str, count: usize) -> anyhow::Result<()> {
        if self.yes || count < 2 {
            return Ok(());
        }
        match output::confirm(&format!("{question}?")) {
            Some(true) => Ok(()),
            Some(false) => Err(failure(Code::Failed, "nothing was done")),
            None => {
                Err(failure(Code::Usage, format!("{question}: give --yes to do this without being asked")))
            }
        }
    }
}

/// What became of each of several resources.
#[derive(Default)]
pub(crate) struct Outcome {
    done: usize,
    refused: Vec<(String, anyhow::Error)>,
}

impl Outcome {
    /// Tells what one is now, or keeps why not.
    pub(crate) fn add(&mut self, name: &str, result: anyhow::Result<String>) -> anyhow::Result<()> {
        let name = text::clean(name);
        match result {
            Ok(now) => {
                self.done += 1;
                output::line(&format!("{name} {}", text::clean(&now)))
            }
            Err(error) => {
                self.refused.push((name, error));
                Ok(())
            }
        }
    }

    /// Counts one whose result went elsewhere: what is on standard output stays alone there.
    pub(crate) fn note(&mut self, name: &str, now: &str) {
        self.done += 1;
        output::note(&format!("{} {}", text::clean(name), text::clean(now)));
    }

    /// One alone fails as it does; of several each is told, and when some were done that is a code of its own.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let (done, refused) = (self.done, self.refused.len());
        let Some((_, first)) = self.refused.first() else { return Ok(()) };
        let code = if done == 0 { exit::code(first) } else { Code::Partial };
        if done + refused == 1
            && let Some((_, error)) = self.refused.pop()
        {
            return Err(error);
        }
        for (name, error) in &self.refused {
            // What is told in several lines is indented there.
            let said: Vec<_> = exit::said(error).lines().map(|line| text::clean(line.trim_start())).collect();
            output::note(&format!("{name}: {}", said.join("; ")));
        }
        Err(failure(code, format!("{done} done, {refused} refused")))
    }
}
