//! The tables of a run's page: its stages, every attempt, what was observed, the tasks of the agent.

use serde_json::Value;
use wardroom_api::run::{Attempt, RunDetail};
use wardroom_console::face::{self, Cell, Panel};
use wardroom_core::{Named as _, run::plan::Kind, tone};

/// All tables that have something in them.
pub(crate) fn panels(value: &Value, _: Option<&Value>) -> Vec<Panel> {
    let Some(run) = face::typed::<RunDetail>(value) else { return Vec::new() };
    let all = [stages(&run), attempts(&run), observed(&run), tasks(&run)];
    all.into_iter().filter(|panel| !panel.rows.is_empty()).collect()
}

/// Every stage of the plan: done, running, failed, left out, or not yet.
fn stages(run: &RunDetail) -> Panel {
    let kind = Kind::ALL.iter().find(|kind| kind.as_str() == run.run.kind);
    let plan = kind.map(|kind| kind.plan()).unwrap_or_default();
    let row = |(number, name): (usize, &str)| {
        // The newest attempt is the first.
        let tries: Vec<_> =
            run.attempts.iter().filter(|attempt| attempt.stage == name && !attempt.undo).collect();
        let is_here = name == run.run.stage;
        let outcome = match tries.first() {
            _ if is_here && run.run.state == "running" => Cell::state("attempt", Some("running")),
            Some(newest) => Cell::state("attempt", Some(newest.outcome.clone())),
            None => Cell::None,
        };
        let took = tries.first().map_or(Cell::None, |newest| took(newest));
        let count = Cell::text((tries.len() > 1).then(|| format!("{} tries", tries.len())));
        vec![Cell::Text((number + 1).to_string()), Cell::Mono(name.to_owned()), outcome, took, count]
    };
    let names = plan.iter().map(|step| step.stage.as_str());
    let current = names.clone().position(|name| name == run.run.stage);
    let rows: Vec<_> = names.enumerate().map(row).collect();
    let note = current.map_or_else(String::new, |at| format!("stage {} of {}", at + 1, rows.len()));
    Panel { title: "Stages", note, heads: &["No.", "Stage", "Outcome", "Took", "Tries"], rows, current }
}

fn took(attempt: &Attempt) -> Cell {
    Cell::Took(attempt.ended_at.duration_since(attempt.started_at))
}

/// Every attempt with its evidence in full, the newest first.
fn attempts(run: &RunDetail) -> Panel {
    let row = |attempt: &Attempt| {
        let stage = if attempt.undo { format!("undo {}", attempt.stage) } else { attempt.stage.clone() };
        vec![
            Cell::Text(attempt.attempt.to_string()),
            Cell::Mono(stage),
            Cell::Word(tone::of("attempt", &attempt.outcome), attempt.outcome.clone()),
            took(attempt),
            Cell::mono(attempt.class.clone()),
            Cell::whole(attempt.evidence.clone()),
            Cell::Time(attempt.ended_at),
        ]
    };
    Panel {
        title: "Attempts",
        note: "newest first".to_owned(),
        heads: &["Try", "Stage", "Outcome", "Took", "Class", "Evidence", "Ended"],
        rows: run.attempts.iter().map(row).collect(),
        current: None,
    }
}

/// The last observation of the machine.
fn observed(run: &RunDetail) -> Panel {
    let state = run.observed.as_ref().and_then(|observed| observed.state.as_object());
    let shown = |value: &Value| match value {
        Value::String(text) => Cell::mono(Some(text.clone())),
        Value::Null => Cell::None,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Cell::mono(Some(value.to_string()))
        }
    };
    let rows: Vec<_> = state
        .into_iter()
        .flatten()
        .map(|(name, value)| vec![Cell::Text(name.clone()), shown(value)])
        .collect();
    let note =
        run.observed.as_ref().map_or_else(String::new, |observed| format!("digest `{}`", observed.digest));
    Panel { title: "Observed machine", note, heads: &["What", "Observed"], rows, current: None }
}

/// What was asked of the agent.
fn tasks(run: &RunDetail) -> Panel {
    let rows = run.tasks.iter().rev().map(|task| {
        vec![
            Cell::Mono(task.kind.clone()),
            Cell::Mono(task.stage.clone()),
            Cell::state("task", Some(task.state.clone())),
            Cell::Time(task.updated_at),
        ]
    });
    Panel {
        title: "Tasks of the agent",
        note: "newest first".to_owned(),
        heads: &["Task", "Stage", "State", "Changed"],
        rows: rows.collect(),
        current: None,
    }
}
