//! What `wardroom wait` waits for, and how far a resource is.

use std::collections::BTreeSet;

use serde_json::Value;
use wardroom_core::{Named as _, lifecycles, run::State as RunState};

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    State(String),
    /// A condition and its status.
    Condition(String, String),
    Run(String),
    Deleted,
}

pub(super) fn goal(text: &str) -> Result<Goal, String> {
    match text.split_once('=') {
        None if matches!(text, "deleted" | "delete") => Ok(Goal::Deleted),
        Some(("state" | "status", state)) if !state.is_empty() => Ok(Goal::State(state.to_owned())),
        Some(("condition", wanted)) if !wanted.is_empty() && !wanted.starts_with('=') => {
            let (name, status) = wanted.split_once('=').unwrap_or((wanted, "True"));
            Ok(Goal::Condition(name.to_owned(), status.to_owned()))
        }
        Some(("run", state)) if state.parse::<RunState>().is_ok() => Ok(Goal::Run(state.to_owned())),
        Some(("run", _)) => {
            let states: Vec<_> = RunState::ALL.iter().map(|state| state.as_str()).collect();
            Err(format!("a run is one of: {}", states.join(", ")))
        }
        Some(_) | None => Err("write state=STATE, condition=NAME[=STATUS], run=STATE or deleted".to_owned()),
    }
}

/// How far a resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    There(String),
    Never(String),
    NotYet,
}

pub(super) fn gone(goal: &Goal) -> Progress {
    match goal {
        Goal::Deleted => Progress::There("deleted".to_owned()),
        Goal::State(_) | Goal::Condition(..) | Goal::Run(_) => Progress::Never("it was deleted".to_owned()),
    }
}

/// Compares the state in the JSON of a resource; a state that no move leads to any more is given up.
pub(super) fn stated(kind: &str, wanted: &str, item: &Value) -> Progress {
    let stated = item["state"].as_str().or(item["status"].as_str());
    // The state of a resource with several statuses is its summary; that of one with a rollout is the rollout's.
    let stated = stated.or(item["status"]["summary"]["status"].as_str());
    let state = stated.or(item["status"]["rollout"]["state"].as_str()).unwrap_or_default();
    if state == wanted {
        return Progress::There(state.to_owned());
    }
    let tables = lifecycles::all();
    match tables.iter().find(|table| table.name == kind) {
        Some(table) if !table.leads(state, wanted) => {
            Progress::Never(format!("it is {state}, and nothing leads from there to {wanted}"))
        }
        Some(_) | None => Progress::NotYet,
    }
}

/// Compares a condition in the JSON of a resource, in any case of letters, as people write it. A condition may always change.
pub(super) fn conditioned(name: &str, status: &str, item: &Value) -> Progress {
    let listed = [&item["status"]["conditions"], &item["conditions"]];
    let mut conditions = listed.iter().filter_map(|list| list.as_array()).flatten();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    match conditions.find(|condition| text(condition, "type").eq_ignore_ascii_case(name)) {
        Some(found) if text(found, "status").eq_ignore_ascii_case(status) => {
            Progress::There(format!("{}={}", text(found, "type"), text(found, "status")))
        }
        Some(_) | None => Progress::NotYet,
    }
}

/// Compares the state of a run; one that has ended otherwise, or needs a person, is given up.
pub(super) fn ran(wanted: &str, state: &str, failure: Option<&str>, name: &str) -> Progress {
    let over: BTreeSet<_> = ["completed", "reconciled", "cancelled"].into();
    let stands: BTreeSet<_> = ["failed_retryable", "failed_manual_intervention"].into();
    let why = failure.map_or_else(String::new, |failure| format!(": {failure}"));
    if state == wanted || (wanted == "completed" && state == "reconciled") {
        Progress::There(format!("run {state}"))
    } else if over.contains(state) {
        Progress::Never(format!("its run is {state} already"))
    } else if stands.contains(state) {
        Progress::Never(format!("its run is {state}{why}\nnext: `wardroom why run {name}`"))
    } else {
        Progress::NotYet
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Goal, Progress, conditioned, goal, ran, stated};

    #[test]
    fn a_goal_is_read() {
        assert_eq!(goal("state=active"), Ok(Goal::State("active".to_owned())));
        assert_eq!(goal("run=completed"), Ok(Goal::Run("completed".to_owned())));
        assert_eq!(goal("deleted"), Ok(Goal::Deleted));
        let condition = |name: &str, status: &str| Ok(Goal::Condition(name.to_owned(), status.to_owned()));
        assert_eq!(goal("condition=Available"), condition("Available", "True"));
        assert_eq!(goal("condition=Available=False"), condition("Available", "False"));
        assert!(goal("condition=").is_err() && goal("condition==True").is_err());
        assert!(goal("run=done").unwrap_err().contains("completed"));
        assert!(goal("soon").is_err() && goal("state=").is_err());
    }

    #[test]
    fn a_condition_is_compared_as_people_write_it() {
        let item = json!({"status": {"conditions": [{"type": "Reconciled", "status": "False"}]}});
        let there = Progress::There("Reconciled=False".to_owned());
        assert_eq!(conditioned("reconciled", "false", &item), there);
        assert_eq!(conditioned("Reconciled", "True", &item), Progress::NotYet);
        assert_eq!(conditioned("Other", "False", &item), Progress::NotYet);
        assert_eq!(conditioned("Other", "False", &json!({})), Progress::NotYet);
    }

    #[test]
    fn what_can_no_longer_happen_is_not_waited_for() {
        let node = |state: &str| stated("node", "active", &json!({"state": state}));
        assert_eq!(node("active"), Progress::There("active".to_owned()));
        assert_eq!(node("installing"), Progress::NotYet);
        assert!(matches!(node("retired"), Progress::Never(_)));
        assert_eq!(stated("satellite", "online", &json!({"status": "pending"})), Progress::NotYet);
        let device = json!({"status": {"summary": {"status": "Online"}}});
        assert_eq!(stated("device", "Online", &device), Progress::There("Online".to_owned()));
        let fleet = json!({"status": {"rollout": {"state": "Paused"}}});
        assert_eq!(stated("fleet", "Inactive", &fleet), Progress::NotYet);
        assert_eq!(ran("completed", "running", None, "g"), Progress::NotYet);
        assert!(matches!(ran("completed", "reconciled", None, "g"), Progress::There(_)));
        assert!(matches!(ran("completed", "cancelled", None, "g"), Progress::Never(_)));
        let Progress::Never(why) = ran("completed", "failed_retryable", Some("503"), "g") else { panic!() };
        assert!(why.contains("503") && why.contains("wardroom why run g"), "{why}");
    }
}
