//! Conformance: a third-party program is driven through its contract beside a real server, and each rule is judged by what the
//! server was told.

pub(crate) mod adapter;
mod program;
mod site;

use std::time::Duration;

use serde::Serialize;

use crate::{
    bar, colour,
    exit::{Code, failure},
    output, text,
};

pub(crate) use program::Subject;

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", content = "evidence", rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It holds: what was seen.
    Held(String),
    /// It does not: what was seen instead.
    Broken(String),
    /// An earlier rule would have to hold first.
    NotTried,
}

/// A rule of a contract, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Judged {
    pub(crate) rule: &'static str,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
}

/// A score card that is written rule by rule.
pub(crate) struct Card {
    judged: Vec<Judged>,
    is_json: bool,
}

impl Card {
    pub(crate) const fn new(is_json: bool) -> Self {
        Self { judged: Vec::new(), is_json }
    }

    /// Judges a rule by work that gives its evidence. Returns whether the rule holds.
    pub(crate) async fn judge(
        &mut self,
        rule: &'static str,
        work: impl Future<Output = Result<String, String>>,
    ) -> anyhow::Result<bool> {
        let judged = bar::while_done(work, |took| format!("· {rule}  {}", bar::length(took))).await;
        let holds = judged.is_ok();
        self.add(rule, judged.map_or_else(Verdict::Broken, Verdict::Held))?;
        Ok(holds)
    }

    /// Notes rules that cannot be tried.
    pub(crate) fn skip(&mut self, rules: &[&'static str]) -> anyhow::Result<()> {
        rules.iter().try_for_each(|rule| self.add(rule, Verdict::NotTried))
    }

    fn add(&mut self, rule: &'static str, verdict: Verdict) -> anyhow::Result<()> {
        let judged = Judged { rule, verdict };
        if !self.is_json {
            output::line(&line(&judged))?;
        }
        self.judged.push(judged);
        Ok(())
    }

    /// Writes the score, and fails unless every rule holds.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let all = self.judged.len();
        let held = self.judged.iter().filter(|judged| matches!(judged.verdict, Verdict::Held(_))).count();
        match self.is_json {
            true => output::json(&self.judged)?,
            false => output::line(&format!("{held} of {all} rules hold"))?,
        }
        if held == all { Ok(()) } else { Err(failure(Code::Failed, "the program does not conform")) }
    }
}

fn line(judged: &Judged) -> String {
    use wardroom_core::tone::Tone;
    let (tone, evidence) = match &judged.verdict {
        Verdict::Held(evidence) => (Tone::Good, evidence.as_str()),
        Verdict::Broken(evidence) => (Tone::Bad, evidence.as_str()),
        Verdict::NotTried => (Tone::Over, "not tried, because a rule above does not hold"),
    };
    let mark = colour::of_output().toned(tone, &tone.mark().to_string());
    format!("{mark} {:<58} {}", judged.rule, text::clean(evidence))
}

/// Why something is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It may come.
    NotYet(String),
    /// It will not.
    Never(String),
}

impl From<String> for Absent {
    fn from(seen: String) -> Self {
        Self::NotYet(seen)
    }
}

/// Looks again and again until something is there, for as long as the patience lasts; then says what was seen last.
pub(crate) async fn within<T>(
    patience: Duration,
    look: impl AsyncFn() -> Result<T, Absent>,
) -> Result<(T, Duration), String> {
    let began = tokio::time::Instant::now();
    loop {
        match look().await {
            Ok(found) => return Ok((found, began.elapsed())),
            Err(Absent::Never(seen)) => return Err(seen),
            Err(Absent::NotYet(seen)) if began.elapsed() >= patience => {
                return Err(format!("{seen} (after {})", bar::length(patience)));
            }
            Err(Absent::NotYet(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Absent, Judged, Verdict, line, within};

    #[test]
    fn a_line_says_rule_and_evidence() {
        let said = |verdict| line(&Judged { rule: "it beats", verdict });
        assert!(said(Verdict::Held("after 1s".to_owned())).starts_with("✓ it beats "));
        assert!(said(Verdict::Broken("silent".to_owned())).ends_with(" silent"));
        assert!(said(Verdict::NotTried).contains("not tried"));
    }

    #[tokio::test]
    async fn what_was_seen_last_is_the_evidence() {
        let looks = std::cell::Cell::new(0);
        let third = async || {
            looks.set(looks.get() + 1);
            if looks.get() == 3 { Ok("there") } else { Err(format!("look {}", looks.get()).into()) }
        };
        assert_eq!(within(Duration::from_secs(60), third).await.unwrap().0, "there");
        let never = within(Duration::ZERO, async || Err::<(), _>("nothing".to_owned().into())).await;
        assert_eq!(never.unwrap_err(), "nothing (after 0s)");
        let over = async || Err::<(), _>(Absent::Never("it ended".to_owned()));
        assert_eq!(within(Duration::from_secs(60), over).await.unwrap_err(), "it ended");
    }
}
