//! Tone: how a state is shown, the same on the console, in the colours of the command line and in the documentation.
//!
//! Every state of every kind has one, by an exhaustive match: a new state does not compile without a tone.

use crate::{
    Named,
    cluster::Status as Condition,
    device::{applications, fleet, lifecycle, resource, summary, update, updated},
    gpu_node, lifecycles,
    liveness::{Phase, deadline::Standing},
    names::names,
};

names! {
    /// How a state is shown.
    pub enum Tone {
        /// All is well.
        Good = "good",
        /// Machines act.
        Work = "work",
        /// A person or a boot is waited for.
        Wait = "wait",
        /// Not as it should be, and nobody has to act at once.
        Warn = "warn",
        /// Failed: somebody has to act.
        Bad = "bad",
        /// Blocked on purpose.
        Held = "held",
        /// At its end, or out of service.
        Over = "over",
        /// Nothing is known.
        Unknown = "unknown",
    }
}

impl Tone {
    /// The icon that carries the tone without colour: a disc with a check, a turning arrow, a clock, a triangle, an
    /// octagon with a cross, a shield, a ring with a dash, a dashed ring with a question mark.
    #[must_use]
    pub const fn icon(self) -> &'static str {
        match self {
            Self::Good => "check",
            Self::Work => "turn",
            Self::Wait => "clock",
            Self::Warn => "triangle",
            Self::Bad => "cross",
            Self::Held => "shield",
            Self::Over => "dash",
            Self::Unknown => "question",
        }
    }

    /// The mark that carries the tone in a line of text.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Work => '↻',
            Self::Wait => '◷',
            Self::Warn => '!',
            Self::Bad => '✗',
            Self::Held => '■',
            Self::Over => '–',
            Self::Unknown => '?',
        }
    }
}

/// A state, or a status, that has a tone.
pub trait Toned: Named {
    /// Its tone.
    fn tone(self) -> Tone;
}

/// Writes `Toned` as a table: a tone, and the states that have it. A new kind writes its own beside its states.
macro_rules! tones {
    ($($State:ty { $($tone:ident: $($state:ident)|+,)+ })+) => {
        $(impl $crate::tone::Toned for $State {
            fn tone(self) -> $crate::tone::Tone {
                match self { $( $(Self::$state)|+ => $crate::tone::Tone::$tone, )+ }
            }
        })+
    };
}

pub(crate) use tones;

tones! {
    gpu_node::task::State {
        Good: Succeeded,
        Work: Dispatched,
        Wait: Queued,
        Bad:  Failed | Refused,
        Over: Withdrawn,
    }
    Standing {
        Good: Heard,
        Warn: Late | Suspected | Due,
    }
    Phase {
        Good: Watching,
        Warn: Holding,
        Work: Releasing,
    }
    summary::Status {
        Good: Online,
        Work: Rebooting,
        Warn: Degraded | Offline,
        Bad:  Error,
    }
    updated::Status {
        Good: UpToDate,
        Work: Updating,
        Warn: OutOfDate,
        Unknown: Unknown,
    }
    applications::Status {
        Good: Healthy,
        Warn: Degraded,
        Bad:  Error,
        Unknown: Unknown,
    }
    lifecycle::Status {
        Good: Enrolled,
        Work: Decommissioning,
        Over: Decommissioned,
        Unknown: Unknown,
    }
    applications::State {
        Good: Running,
        Work: Preparing | Starting,
        Bad:  Error,
        Over: Completed,
    }
    resource::Health {
        Good: Healthy,
        Warn: Degraded,
        Bad:  Error | Critical,
        Unknown: Unknown,
    }
    update::State {
        Good: Updated,
        Work: Preparing | ReadyToUpdate | ApplyingUpdate | Rebooting | ActivatingConfig | RollingBack,
        Bad:  Error,
    }
    Condition {
        Good: True,
        Work: False,
        Warn: Unknown,
    }
}

/// Returns the tone of a state by the names on the wire, for everything that shows what the API says. `what` is a kind,
/// or a kind and one of its statuses, such as `device.updated`.
#[must_use]
pub fn of(what: &str, state: &str) -> Tone {
    if let Some(tone) = lifecycles::tone(what, state) {
        return tone;
    }
    match what {
        "task" => named::<gpu_node::task::State>(state),
        "silence" => named::<Standing>(state),
        "guard" => named::<Phase>(state),
        "device" | "device.summary" => named::<summary::Status>(state),
        "device.updated" => named::<updated::Status>(state),
        "device.applications" => named::<applications::Status>(state),
        "device.lifecycle" => named::<lifecycle::Status>(state),
        "application" => named::<applications::State>(state),
        "health" => named::<resource::Health>(state),
        "fleet" => named::<fleet::State>(state),
        "cluster" | "nodepool" => named::<Condition>(state),
        _ => progress(state),
    }
}

/// Returns the word for a state in pages for people: that of the wire, except where the wire has a condition.
#[must_use]
pub fn word<'a>(what: &str, state: &'a str) -> &'a str {
    match (what, state) {
        ("cluster" | "nodepool", "True") => "Reconciled",
        ("cluster" | "nodepool", "False") => "NotReconciled",
        (_, state) => state,
    }
}

/// Returns the tone of a state by its name on the wire.
pub(crate) fn named<S: Toned>(state: &str) -> Tone {
    let found = S::ALL.iter().find(|one| one.as_str() == state);
    found.map_or(Tone::Unknown, |found| found.tone())
}

/// The tone of the words that say how far a piece of work is, or how long something holds: attempts, effects, incidents,
/// tokens, conditions of adapters.
fn progress(word: &str) -> Tone {
    match word {
        "done" | "active" | "available" | "True" | "approved" | "succeeded" => Tone::Good,
        "running" | "retrying" | "releasing" | "applying" | "deleting" => Tone::Work,
        "waiting" | "pending" | "offered" => Tone::Wait,
        "lost" | "holding" | "silent" | "paused" => Tone::Warn,
        "failed" | "not_available" | "False" | "denied" => Tone::Bad,
        "revoked" => Tone::Held,
        "skipped" | "left_out" | "undone" | "ended" | "expired" | "finalized" | "deleted" => Tone::Over,
        _ => Tone::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{node, run, satellite, table::State};

    /// The table of the console's specification, in a few of its cells.
    #[test]
    fn states_have_the_tones_of_the_table() {
        let cases = [
            ("node", "install_failed", Tone::Bad),
            ("node", "installed", Tone::Wait),
            ("gpu-node", "enrolling", Tone::Work),
            ("gpu-node", "bootstrap_issued", Tone::Wait),
            ("gpu-node", "quarantined", Tone::Held),
            ("run", "failed_manual_intervention", Tone::Bad),
            ("satellite", "revoked", Tone::Held),
            ("silence", "suspected", Tone::Warn),
            ("device", "Offline", Tone::Warn),
            ("device.updated", "Unknown", Tone::Unknown),
            ("device-update", "RollingBack", Tone::Work),
            ("fleet", "Suspended", Tone::Bad),
            ("cluster", "False", Tone::Work),
            ("incident", "ended", Tone::Over),
            ("node", "Online", Tone::Unknown),
        ];
        for (what, state, tone) in cases {
            assert_eq!(of(what, state), tone, "{what} {state}");
        }
    }

    /// A state of service is calm, also when its colour cannot be seen.
    #[test]
    fn service_is_good_and_icons_differ() {
        fn check<S: State + Toned>() {
            for state in S::SERVICE {
                assert!(matches!(state.tone(), Tone::Good | Tone::Work), "{}", state.as_str());
            }
        }
        check::<node::State>();
        check::<gpu_node::State>();
        check::<run::State>();
        check::<satellite::State>();
        check::<update::State>();
        for (index, tone) in Tone::ALL.iter().enumerate() {
            let others = &Tone::ALL[index + 1..];
            assert!(others.iter().all(|other| other.icon() != tone.icon() && other.mark() != tone.mark()));
        }
    }
}
