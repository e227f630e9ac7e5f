//! `docs/lifecycles.md` is generated from the tables; this test compares, and with `WARDROOM_BLESS=1` rewrites.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::{fmt::Write as _, path::Path};

use wardroom_core::{
    Named, diagram,
    gpu_node::{self, maas, mapping},
    lifecycles::{self, Derived, Lifecycle, StateView},
    run::{self, action, plan},
};

#[test]
fn the_page_says_what_the_tables_say() {
    holds("docs/lifecycles.md", &page());
}

#[test]
fn the_pictures_show_what_the_tables_say() {
    for diagram in diagram::all() {
        holds(&format!("docs/lifecycles/{}.svg", diagram.lifecycle.name), &diagram.for_file());
    }
}

fn holds(name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os("WARDROOM_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "{name} differs from the tables: run `./dev bless` and look at the change");
}

/// The reference tells an installer of agents which tasks an agent must handle.
#[test]
fn the_page_of_the_agent_names_every_task_with_its_stage() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gpu-nodes-reference.md");
    let page = std::fs::read_to_string(path).unwrap();
    for stage in plan::Stage::ALL {
        let Some(task) = gpu_node::task::Kind::of(*stage) else { continue };
        assert!(page.contains(&format!("| `{task}` | `{stage}` |")), "{task} of {stage} is missing");
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Lifecycles\n\n\
         Generated from the tables in `crates/core` by `./dev bless`; do not edit.\n\n\
         A move that is not listed here does not exist: the server refuses it and answers with what is allowed.\n\
         The first move of a state is the one to prefer. The owner of a move makes it happen in the normal\n\
         course; where there is a call, a person with that role may cause it too.\n\n\
         In the pictures a thick line is a state in service, and a dashed one the end of a life. Colours are the tones\n\
         of the console. `wardroom lifecycles KIND -o svg` draws the same; `-o mermaid` and `-o dot` are for other tools.\n",
    );
    for lifecycle in lifecycles::all() {
        write_lifecycle(&mut page, &lifecycle);
    }
    for derived in lifecycles::derived() {
        write_derived(&mut page, &derived);
    }
    write_actions(&mut page);
    write_plans(&mut page);
    write_mapping(&mut page);
    write_expectations(&mut page);
    page
}

fn write_lifecycle(page: &mut String, lifecycle: &Lifecycle) {
    writeln!(page, "\n## {}\n", lifecycle.name).unwrap();
    write_diagram(page, lifecycle);
    page.push_str("\n| State | Meaning | Patience | When it is stuck |\n|---|---|---|---|\n");
    for state in &lifecycle.states {
        let patience = state.patience_seconds.map_or_else(String::new, hours);
        let remedy = state.remedy.map_or_else(String::new, |call| format!("`{call}`"));
        writeln!(page, "| `{}`{} | {} | {patience} | {remedy} |", state.name, marks(state), state.meaning)
            .unwrap();
    }
    page.push_str("\n| From | To | On | By | What must happen | Call | Role | Precondition |\n|---|---|---|---|---|---|---|---|\n");
    for row in &lifecycle.moves {
        let call = row.call.map_or_else(String::new, |call| format!("`{call}`"));
        let role = row.call.map_or("", |call| call.role.as_str());
        let precondition = row.call.and_then(|call| call.precondition).unwrap_or_default();
        let when =
            row.reason.map_or_else(|| row.when.to_owned(), |reason| format!("{} ({reason})", row.when));
        writeln!(
            page,
            "| `{}` | `{}` | `{}` | {} | {when} | {call} | {role} | {precondition} |",
            row.from, row.to, row.on, row.by
        )
        .unwrap();
    }
}

fn write_derived(page: &mut String, derived: &Derived) {
    writeln!(page, "\n## {}\n", derived.name).unwrap();
    writeln!(page, "`{}` is derived from what is reported; no event moves it.\n", derived.about).unwrap();
    page.push_str("| Status | Meaning |\n|---|---|\n");
    for status in &derived.statuses {
        writeln!(page, "| `{}` | {} |", status.name, status.meaning).unwrap();
    }
    page.push_str("\n| From | To | By | What must happen |\n|---|---|---|---|\n");
    for exit in &derived.exits {
        writeln!(page, "| `{}` | `{}` | {} | {} |", exit.from, exit.to, exit.by, exit.when).unwrap();
    }
}

fn write_diagram(page: &mut String, lifecycle: &Lifecycle) {
    let (name, states, moves) = (lifecycle.name, lifecycle.states.len(), lifecycle.moves.len());
    writeln!(page, "![{states} states and {moves} moves between them](lifecycles/{name}.svg)").unwrap();
}

fn marks(state: &StateView) -> String {
    let marks = [("initial", state.initial), ("in service", state.service), ("terminal", state.terminal)];
    let marks: Vec<_> = marks.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}

fn hours(seconds: i64) -> String {
    match (seconds / 3600, seconds % 3600 / 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// What each action does to a run that has effects to undo, by state and lease.
fn write_actions(page: &mut String) {
    page.push_str(
        "\n## Operator actions on a run\n\n\
         For a run that did something which has to be undone, is past its first stage and has a fresh\n\
         observation to continue from. An action that was carried out already succeeds and says so.\n\n",
    );
    let leases = [
        ("queued", action::Lease::Queued),
        ("put off", action::Lease::PutOff),
        ("live lease", action::Lease::Live),
        ("stale lease", action::Lease::Stale),
    ];
    let columns: Vec<_> = run::State::ALL
        .iter()
        .flat_map(|&state| leases.iter().map(move |&(name, lease)| (state, name, lease)))
        .filter(|(state, _, lease)| {
            matches!(state, run::State::Running | run::State::Compensating) || *lease == action::Lease::Queued
        })
        .collect();
    page.push_str("| Run |");
    for action in action::Action::ALL {
        write!(page, " `{action}` |").unwrap();
    }
    writeln!(page, "\n|---|{}", "---|".repeat(action::Action::ALL.len())).unwrap();
    for (state, lease_name, lease) in columns {
        let held = matches!(state, run::State::Running | run::State::Compensating);
        let name = if held { format!("`{state}`, {lease_name}") } else { format!("`{state}`") };
        write!(page, "| {name} |").unwrap();
        for &action in action::Action::ALL {
            write!(page, " {} |", outcome(action, state, lease)).unwrap();
        }
        page.push('\n');
    }
    page.push_str("\n| Refusal | Why, and what to do |\n|---|---|\n");
    for refusal in action::Refusal::ALL {
        writeln!(page, "| `{refusal}` | {} |", refusal.meaning()).unwrap();
    }
}

fn outcome(action: action::Action, state: run::State, lease: action::Lease) -> String {
    use action::{Decision, Facts, Goal, Observation};
    let undoing = state == run::State::Compensating;
    let facts = Facts {
        state,
        lease,
        goal: if undoing { Goal::Cancel } else { Goal::Run },
        has_effects: state != run::State::Pending,
        failed_in_undo: false,
        at_first_stage: false,
        adopted: false,
        observation: Observation::Continues,
        abandon: false,
        silent: false,
    };
    match action::decide(action, facts) {
        Ok(Decision::Move(event, _)) => {
            let to = run::TABLE.find(state, event).unwrap().to;
            format!("→ `{to}`")
        }
        Ok(Decision::Head(_)) => "at the next safe point".to_owned(),
        Ok(Decision::Requeue) => "queued again".to_owned(),
        Ok(Decision::Nothing(already)) => format!("ok, `{already}`"),
        Err(refusal) => format!("409 `{refusal}`"),
    }
}

fn write_plans(page: &mut String) {
    page.push_str("\n## Plans\n\nThe stages of each kind of run, in order; `always` is not repeated.\n");
    for &kind in plan::Kind::ALL {
        writeln!(page, "\n### {kind}\n\n{}\n", kind.meaning()).unwrap();
        for (number, step) in kind.plan().iter().enumerate() {
            let when = if step.when == plan::When::Always {
                String::new()
            } else {
                format!(" ({})", step.when.meaning())
            };
            let patience = hours(kind.patience_at(step.stage).as_secs());
            writeln!(page, "{}. `{}`, {patience}: {}{when}", number + 1, step.stage, step.stage.meaning())
                .unwrap();
        }
    }
}

fn write_mapping(page: &mut String) {
    page.push_str(
        "\n## GPU node and its current run\n\n\
         Combinations that are sound; any other is reported and repaired. `enrolling`, `draining` and `removing`\n\
         always have a run that is not over.\n\n\
         | Run of kind | Node | Run | Meaning | From |\n|---|---|---|---|---|\n",
    );
    for fit in mapping::FITS {
        let (kinds, nodes, runs) = (names(fit.kinds), names(fit.nodes), names(fit.runs));
        writeln!(page, "| {kinds} | {nodes} | {runs} | {} | {} |", fit.meaning, fit.source).unwrap();
    }
}

fn names<T: Named>(values: &[T]) -> String {
    values.iter().map(|value| format!("`{}`", value.as_str())).collect::<Vec<_>>().join(", ")
}

fn write_expectations(page: &mut String) {
    page.push_str(
        "\n## GPU node and MAAS\n\n\
         What MAAS should say of a machine; anything else is drift.\n\n\
         | Node | Expected | Also while a run is open |\n|---|---|---|\n",
    );
    for row in maas::EXPECTATIONS {
        let list = |expects: &[maas::Expect]| {
            expects.iter().map(|&expect| said(expect)).collect::<Vec<_>>().join(", ")
        };
        writeln!(
            page,
            "| `{}` | {} | {} |",
            gpu_node::State::as_str(row.state),
            list(row.expected),
            list(row.while_worked_on)
        )
        .unwrap();
    }
}

fn said(expect: maas::Expect) -> String {
    match expect {
        maas::Expect::Any => "anything".to_owned(),
        maas::Expect::Is(status) => format!("{status:?} ({})", status.code()),
        maas::Expect::Failed => "any failed status".to_owned(),
        maas::Expect::PoweredOff => "powered off".to_owned(),
        maas::Expect::Absent => "absent".to_owned(),
    }
}
