//! Changes to several resources: the question before, and the result of each.

use clap::Args;

use crate::{
    exit::{self, Code, failure},
    output, text,
};

/// `--yes`.
#[derive(Args)]
pub(crate) struct Consent {
    /// Change several resources without asking.
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Whether [`Self::ask`] will ask.
    pub(crate) fn asks(&self, count: usize) -> bool {
        !self.yes && count > 1
    }

    /// Asks before several resources are changed; without a terminal, `--yes` is required.
    pub(crate) fn ask(&self, question: &str, count: usize) -> anyhow::Result<()> {
        if !self.asks(count) {
            return Ok(());
        }
        match output::confirm(&format!("{question}?")) {
            Some(true) => Ok(()),
            Some(false) => Err(failure(Code::Failed, "nothing was done")),
            None => Err(failure(Code::Usage, format!("{question}: confirm with --yes"))),
        }
    }
}

/// The results of a change to several resources.
#[derive(Default)]
pub(crate) struct Outcome {
    done: usize,
    refused: Vec<(String, anyhow::Error)>,
}

impl Outcome {
    /// Writes the new state of a resource, or keeps its error.
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

    /// Whether a change was refused.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Counts a resource whose secret is on standard output, and notes its state on standard error.
    pub(crate) fn note(&mut self, name: &str, now: &str) {
        self.done += 1;
        output::note(&format!("{} {}", text::clean(name), text::clean(now)));
    }

    /// Returns the error of a single resource. For several, writes each error and fails; some successes have their own code.
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
            // Messages of several lines are indented; here they are joined.
            let said: Vec<_> = exit::said(error).lines().map(|line| text::clean(line.trim_start())).collect();
            output::note(&format!("{name}: {}", said.join("; ")));
        }
        Err(failure(code, format!("{done} done, {refused} refused")))
    }
}
