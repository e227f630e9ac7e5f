//! Members that are heard and do not have to beat: how long their silence is excused.
//!
//! The sweep does not judge them. Their kind does, when it is asked, by a patience of its own; what excuses silence
//! is the same record as for members that have to beat. Their beats are flushed and loaded like all others.

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::{Heard, Policy, deadline};

use super::{Liveness, kinds::Beating, millis};
use crate::platform::app::App;

impl Beating {
    /// The row of a kind whose members are heard and never have to beat.
    pub(crate) const fn heard_only(kind: &'static str) -> Self {
        Self {
            kind,
            states: &[],
            event: "",
            given: |_, _| None,
            heard: |_, _| Box::pin(async { Ok(None) }),
            ends: &[],
            targets: |_, members| Box::pin(async { Ok(vec![None; members.len()]) }),
            marked: &[],
            back: |_, _| Ok(None),
        }
    }
}

impl Liveness {
    /// Returns how much longer than its patience a member may be silent that was heard at a wall time: the time since then
    /// in which the server did not listen, and the time to be heard again after that.
    pub(crate) fn excused(&self, app: &App, heard: Timestamp, patience: SignedDuration) -> SignedDuration {
        // A request may be the first to run after the process stood still.
        self.pulse(app);
        let (last, now) = (millis(self.steady_of(heard)), self.clock.steady());
        let policy = Policy { fallback: patience, ..self.settings.policy };
        let judge = self.judge_state();
        let last_counted = last.max(judge.counts_from);
        let due = deadline(&Heard { last: last_counted, interval: None }, &policy, &judge.listening, now).due;
        due.duration_since(last).saturating_sub(patience).max(SignedDuration::ZERO)
    }

    /// Names the members of a kind that were last heard before a wall time, as far as memory knows: those whose ids end
    /// like that, at most so many.
    pub(crate) fn heard_before(&self, kind: &str, before: Timestamp, end: &str, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(kind) = self.kind(kind) {
            let before = self.steady_of(before);
            self.slab.heard_before(kind, before, |id| {
                if found.len() < most && id.ends_with(end) {
                    found.push(id.to_owned());
                }
            });
        }
        found
    }
}
