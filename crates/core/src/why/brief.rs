//! The explanation in ten lines: one sentence, what is in the way, what is fine, the next step, two alternatives.
//!
//! The API, the command line and the console show the same one.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Blocker, Exit, Next, Why};
use crate::{action::Action, table::Owner};

/// How many of each are shown; the whole explanation has the rest.
const BLOCKERS: usize = 3;
const FINE: usize = 2;
const OTHERS: usize = 2;

/// The short explanation of a resource and of the work on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Brief {
    /// What people call the resource, as the sentence begins.
    pub name: String,
    /// Where it is.
    pub state: &'static str,
    /// Where it is, for how long, and whether that is too long.
    pub sentence: String,
    /// What that means.
    pub meaning: String,
    /// What keeps it there, each cause once.
    pub blockers: Vec<String>,
    /// How many causes are left out.
    pub more_blockers: usize,
    /// What is as it should be.
    pub fine: Vec<String>,
    /// What to do next.
    pub next: Step,
    /// What could be done instead.
    pub others: Vec<Step>,
    /// How many ways out there are.
    pub ways: usize,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The action; nothing where there is none to take.
    pub action: Option<Action>,
    /// What it does, or what to wait for.
    pub what: String,
}

/// Shortens the explanation of a resource: its own first, then that of the run that works on it.
#[must_use]
pub fn brief(name: &str, explained: &[Why], now: Timestamp) -> Option<Brief> {
    let first = explained.first()?;
    let mut blockers = distinct(explained.iter().flat_map(|why| &why.blockers));
    let more_blockers = blockers.len().saturating_sub(BLOCKERS);
    blockers.truncate(BLOCKERS);
    let fine = explained.iter().flat_map(|why| &why.fine).take(FINE);
    let next = next(first, explained);
    let taken = next.action.clone();
    let name = if first.about == "run" { format!("run {name}") } else { name.to_owned() };
    Some(Brief {
        state: first.state,
        sentence: sentence(&name, first, now),
        meaning: first.meaning.clone().into_owned(),
        blockers,
        more_blockers,
        fine: fine.map(|fine| fine.clone().into_owned()).collect(),
        next,
        others: others(explained, taken.as_ref()),
        ways: explained.iter().map(|why| why.exits.len()).sum(),
        name,
    })
}

fn sentence(name: &str, why: &Why, now: Timestamp) -> String {
    let about = if matches!(why.about, "state" | "run") { String::new() } else { format!(" {}", why.about) };
    let stay = match why.since {
        Some(since) => format!("has been {} for {}", why.state, length(now.duration_since(since))),
        None => format!("is {}", why.state),
    };
    let patience = match why.patience_ends {
        Some(end) if end < now => format!(", {} past its patience", length(now.duration_since(end))),
        Some(end) => format!(", and may take another {}", length(end.duration_since(now))),
        None => String::new(),
    };
    format!("{name}{about} {stay}{patience}.")
}

/// Returns each cause once: evidence that another cause repeats is left out.
fn distinct<'a>(blockers: impl Iterator<Item = &'a Blocker>) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for Blocker { what, .. } in blockers {
        if said.iter().any(|known| known.contains(&**what)) {
            continue;
        }
        said.retain(|known| !what.contains(known.as_str()));
        said.push(what.clone().into_owned());
    }
    said
}

fn next(first: &Why, explained: &[Why]) -> Step {
    match &first.next {
        Next::Nothing => Step { action: None, what: "nothing has to be done".to_owned() },
        Next::Wait { until, .. } => Step { action: None, what: format!("wait until {}", clause(until)) },
        Next::Mend { what } => {
            let is_listed =
                explained.iter().flat_map(|why| &why.blockers).any(|blocker| blocker.what == *what);
            let named = if is_listed { String::new() } else { format!(": {}", clause(what)) };
            Step { action: None, what: format!("look at what is in the way{named}") }
        }
        Next::Call(action) => Step { what: purpose(action, explained), action: Some(action.clone()) },
    }
}

/// Returns why an action is advised, or what it does.
fn purpose(action: &Action, explained: &[Why]) -> String {
    if let Some(reason) = action.reason.as_ref().filter(|_| !action.possible) {
        return format!("not now: {reason}");
    }
    let exits = || explained.iter().flat_map(|why| &why.exits);
    let same = |exit: &&Exit| exit.call.as_ref().is_some_and(|call| is_same(call, action));
    let does = || exits().find(same).map(|exit| Cow::Owned(deed(&exit.when)));
    action.precondition.clone().or_else(does).unwrap_or_default().into_owned()
}

/// Returns the ways out that a person can take now, other than the advised one; of the run and of the resource in turn.
fn others(explained: &[Why], taken: Option<&Action>) -> Vec<Step> {
    let possible = |why: &Why| -> Vec<Step> {
        let (by_person, others): (Vec<_>, Vec<_>) =
            why.exits.iter().partition(|exit| exit.by == Owner::Admin);
        let instead = |exit: &Exit| format!("instead of waiting until {}", clause(&exit.when));
        let calls = by_person.into_iter().map(|exit| (exit, deed(&exit.when)));
        let calls = calls.chain(others.into_iter().map(|exit| (exit, instead(exit))));
        let calls = calls.filter_map(|(exit, what)| Some((exit.call.clone()?, what)));
        let possible =
            calls.filter(|(call, _)| call.possible && taken.is_none_or(|taken| !is_same(call, taken)));
        possible.map(|(call, what)| Step { action: Some(call), what }).collect()
    };
    let mut lists: Vec<_> = explained.iter().rev().map(|why| possible(why).into_iter()).collect();
    let mut steps: Vec<Step> = Vec::new();
    loop {
        let before = steps.len();
        for list in &mut lists {
            let is_new = |step: &Step| steps.iter().all(|known| known.action != step.action);
            let found = list.find(is_new);
            steps.extend(found);
        }
        if steps.len() == before || steps.len() >= OTHERS {
            steps.truncate(OTHERS);
            return steps;
        }
    }
}

/// Whether two actions ask for the same: one may have more of its fields filled in.
fn is_same(one: &Action, other: &Action) -> bool {
    let fixed = |action: &Action, known: &Action| {
        action.body.iter().all(|(field, value)| known.body.get(field).is_none_or(|known| known == value))
    };
    (one.action, one.kind, &one.id) == (other.action, other.kind, &other.id) && fixed(one, other)
}

/// Returns what an action does: `A person approves the node.` becomes `approves the node`.
fn deed(sentence: &str) -> String {
    let rest = ["A person ", "An operator "].iter().find_map(|start| sentence.strip_prefix(start));
    rest.map_or_else(|| clause(sentence), |rest| rest.trim_end_matches('.').to_owned())
}

/// Turns a sentence into a clause; names such as MAAS keep their capitals.
#[must_use]
pub fn clause(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let mut letters = sentence.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(' ' | 'a'..='z')) => {
            format!("{}{}", first.to_lowercase(), &sentence[first.len_utf8()..])
        }
        (_, _) => sentence.to_owned(),
    }
}

/// Returns a length of time in its two largest units, such as `10h14m`.
#[must_use]
pub fn length(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: i64, unit: &str, second: i64, smaller: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{smaller}"),
    };
    match seconds {
        ..60 => format!("{seconds}s"),
        60..600 => two(minutes, "m", seconds % 60, "s"),
        600..3600 => format!("{minutes}m"),
        3600..86_400 => two(hours, "h", minutes % 60, "m"),
        86_400.. => two(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::{self, State, TABLE},
        table::Event as _,
        why::{Stay, explain},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn explained(state: State, blockers: &[&str]) -> Why {
        let blockers = blockers.iter().map(|what| Blocker { what: (*what).to_owned().into(), fix: None });
        explain(TABLE, "n1", state, Stay::of(state, at(0)), at(36_840), blockers.collect())
    }

    #[test]
    fn a_sentence_says_where_for_how_long_and_whether_that_is_too_long() {
        let said = |why: &Why| brief("n1", std::slice::from_ref(why), at(36_840)).unwrap().sentence;
        let mut why = explained(State::Pending, &[]);
        why.patience_ends = None;
        assert_eq!(said(&why), "n1 has been pending for 10h14m.");
        why.patience_ends = Some(at(28_800));
        assert_eq!(said(&why), "n1 has been pending for 10h14m, 2h14m past its patience.");
        why.patience_ends = Some(at(36_900));
        assert_eq!(said(&why), "n1 has been pending for 10h14m, and may take another 1m.");
        let derived = Why { about: "updated", since: None, patience_ends: None, ..why };
        assert_eq!(said(&derived), "n1 updated is pending.");
    }

    #[test]
    fn a_cause_is_said_once() {
        let node = explained(State::InstallFailed, &["MAAS says Failed", "one", "two"]);
        let run = explained(
            State::InstallFailed,
            &["deploy failed 3 times: MAAS says Failed", "one", "four", "five"],
        );
        let brief = brief("n1", &[node, run], at(0)).unwrap();
        assert_eq!(brief.blockers, ["one", "two", "deploy failed 3 times: MAAS says Failed"]);
        assert_eq!(brief.more_blockers, 2);
    }

    #[test]
    fn two_other_ways_are_shown_and_never_the_advised_one() {
        for state in <State as crate::Named>::ALL {
            let why = explained(*state, &[]);
            let brief = brief("n1", std::slice::from_ref(&why), at(0)).unwrap();
            let calls = why.exits.iter().filter(|exit| exit.call.is_some()).count();
            assert!(brief.others.len() <= OTHERS && brief.others.len() <= calls, "{state}");
            assert!(
                brief.others.iter().all(|step| step.action.is_some() && step.action != brief.next.action)
            );
            assert_eq!(brief.ways, why.exits.len());
        }
        let approve = brief("n1", &[explained(State::Discovered, &[])], at(0)).unwrap().next;
        assert_eq!(approve.what, "approves the node");
        assert_eq!(approve.action.unwrap().action, node::Event::Approve.call().unwrap().verb);
    }

    #[test]
    fn an_impossible_step_says_why() {
        let mut why = explained(State::Discovered, &[]);
        let Next::Call(action) = why.next else { panic!("{:?}", why.next) };
        why.next = Next::Call(action.unless(Some("a run works on it")));
        assert_eq!(brief("n1", &[why], at(0)).unwrap().next.what, "not now: a run works on it");
    }

    /// A reader of the next step alone learns what is in the way, unless it is listed above.
    #[test]
    fn what_is_in_the_way_is_said() {
        let next = |blockers: &[&str]| {
            let next = Next::Mend { what: "No agent is heard.".into() };
            let why = Why { next, ..explained(State::Installing, blockers) };
            brief("n1", &[why], at(0)).unwrap().next.what
        };
        assert_eq!(next(&[]), "look at what is in the way: no agent is heard");
        assert_eq!(next(&["No agent is heard."]), "look at what is in the way");
    }

    #[test]
    fn lengths_have_two_units() {
        for (seconds, expected) in [
            (-5, "0s"),
            (59, "59s"),
            (61, "1m1s"),
            (660, "11m"),
            (3_600, "1h"),
            (36_840, "10h14m"),
            (90_000, "1d1h"),
        ] {
            assert_eq!(length(SignedDuration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_sentence_becomes_a_clause() {
        for (sentence, expected) in [
            ("The node reports `started`.", "the node reports `started`"),
            ("A person approves the node.", "a person approves the node"),
            ("MAAS says so.", "MAAS says so"),
            ("", ""),
        ] {
            assert_eq!(clause(sentence), expected);
        }
        assert_eq!(deed("An operator freezes the run."), "freezes the run");
    }
}
