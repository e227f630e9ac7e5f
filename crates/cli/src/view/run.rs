//! Runs in columns, and one run with every attempt.

use jiff::Timestamp;
use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query, RunQuery},
    found::Found,
    gpu_node::GpuNode,
    run::{Attempt, Observed, Run, RunDetail},
};
use wardroom_server::platform::clock::Clock;

use super::{Resource, Selectable, Shape, View, print_one};
use crate::{
    exit::{Code, failure, not_found},
    fields,
    format::Shown,
    kind::Kind,
    locate::Among,
    output::{self, Format},
    said::Said,
    suggest::{self, Words},
    table::{
        Column, Heads,
        Level::{Full, Narrow, Wide},
        Tones, Writer, column, or_none,
    },
    text::{age, duration, time},
};

impl View for Run {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",          Narrow, |run, _| run.title().to_owned()),
        column("STATE",         Narrow, |run, _| run.state.clone()),
        column("KIND",          Narrow, |run, _| run.kind.clone()),
        column("STAGE",         Narrow, stage),
        column("ATTEMPT",       Narrow, attempt),
        column("SINCE",         Narrow, |run, now| age(run.state_changed_at, now)),
        column("AGE",           Narrow, |run, now| age(run.created_at, now)),
        column("ID",            Wide,   |run, _| run.id.clone()),
        column("NODE",          Wide,   |run, _| run.node_id.clone()),
        column("SITE",          Wide,   |run, _| or_none(run.site.as_deref())),
        column("GOAL",          Wide,   |run, _| run.goal.clone()),
        column("FAILURE CLASS", Wide,   |run, _| or_none(run.failure.as_ref().map(|failure| failure.class.as_str()))),
        column("WAITING FOR",   Wide,   |run, _| or_none(run.waiting.as_ref().map(|waiting| waiting.what.as_str()))),
        column("NEXT LOOK",     Full,   |run, _| or_none(run.next_attempt_at.map(time).as_deref())),
        column("ADOPTED",       Full,   |run, _| or_none(run.adopted.then_some("yes"))),
        column("ACCEPTED",      Full,   |run, _| time(run.created_at)),
        column("CHANGED",       Full,   |run, _| time(run.updated_at)),
    ];

    const TONES: Tones = Tones::Of("run");

    const LAYERS: &'static [(&'static str, &'static [&'static str])] =
        &[("Work", &["STAGE", "ATTEMPT", "GOAL", "WAITING FOR", "NEXT LOOK", "ADOPTED"])];

    const HIDDEN: &'static [&'static str] = &["AGE", "SINCE", "FAILURE CLASS"];

    const USUAL: &'static [usize] = &[10, 26, 20, 24];

    fn name(&self) -> String {
        format!("run/{}", self.id)
    }
}

impl Resource for Run {
    const KIND: Kind = Kind::Run;
    const SELECTABLE: Selectable = Selectable::ByFields;
    const EXPLAINED: bool = true;
    const KEPT: Option<&'static str> = Some("runs are kept; cancel an open one: `wardroom run cancel NAME`");

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.runs(&asked(query)?).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.run(id).await?.run)
    }

    /// The name of a node leads to its newest run, also that of a deleted one.
    async fn named(client: &Client, typed: &str, among: Among) -> anyhow::Result<Vec<Found>> {
        let kind = Self::KIND.as_str();
        let found = client.find(Some(kind), typed, among == Among::All).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        let mut runs = Vec::new();
        for node in client.find(Some(GpuNode::KIND.as_str()), typed, true).await? {
            let Some(id) = client.gpu_node(&node.id).await?.run else {
                return Err(not_found(Kind::Run, format!("{typed:?} never had a run")));
            };
            runs.push(Found { kind: kind.to_owned(), id, name: node.name, ..node });
        }
        Ok(runs)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        Some(Words::open(&["run", &suggest::kebab(&action.action), id]))
    }

    fn title(&self) -> &str {
        self.hostname.as_deref().unwrap_or(&self.id)
    }

    fn selector(&self) -> Option<String> {
        Some(format!("node_id={}", self.node_id))
    }

    fn run(&self) -> Option<&str> {
        Some(&self.id)
    }

    /// In json and yaml, one run is written as the API returns it.
    async fn print_one(client: &Client, shape: &Shape, item: &Self) -> anyhow::Result<()> {
        match shape.output {
            Shown::As(Format::Json) => output::json(&client.run(&item.id).await?),
            Shown::As(Format::Yaml) => output::yaml(&client.run(&item.id).await?),
            Shown::As(Format::Table | Format::Wide | Format::Name)
            | Shown::JsonLines
            | Shown::Csv(_)
            | Shown::Path(_)
            | Shown::Chosen(_) => print_one(shape, item),
        }
    }

    async fn print_details(&self, client: &Client, said: &mut Said) -> anyhow::Result<()> {
        let RunDetail { observed, allowed_actions, attempts, .. } = client.run(&self.id).await?;
        let observed = observed.map(|observed| ("MAAS", seen(&observed, Clock.now())));
        fields::section("Observed", observed.as_slice())?;
        let allowed: Vec<_> = allowed_actions.iter().map(|action| suggest::kebab(&action.action)).collect();
        if !allowed.is_empty() {
            output::line(&format!("\nAllowed: {}", allowed.join(", ")))?;
        }
        output::line("\nAttempts, the newest first:")?;
        let rows: Vec<_> = attempts.iter().map(|attempt| row(attempt, said)).collect();
        let heads = ["STARTED", "TOOK", "STAGE", "ATTEMPT", "OUTCOME", "CLASS", "EVIDENCE"];
        Writer::start(&heads, &rows, Heads::Shown).map(drop)
    }
}

/// Turns fields into the parameters of the API; the last of repeated fields counts.
fn asked(query: &Query) -> anyhow::Result<RunQuery> {
    let Query { state, label_selector: _, field_selector, deleted: _, limit, cursor } = query.clone();
    let mut asked = RunQuery { state, limit, cursor, ..RunQuery::default() };
    for part in field_selector.iter().flat_map(|fields| fields.split(',')).filter(|part| !part.is_empty()) {
        let value = part.split_once('=').map(|(field, value)| (field.trim(), Some(value.trim().to_owned())));
        match value {
            Some(("kind", value)) => asked.kind = value,
            Some(("node_id", value)) => asked.node_id = value,
            Some(("site", value)) => asked.site = value,
            Some(("status", value)) => asked.state = value,
            Some(_) | None => {
                let message = format!("{part:?}: runs are selected by kind=, node_id=, site= and status=");
                return Err(failure(Code::Usage, message));
            }
        }
    }
    Ok(asked)
}

fn stage(run: &Run, _now: Timestamp) -> String {
    if run.undoing { format!("{} (undo)", run.stage) } else { run.stage.clone() }
}

/// A stage that has not begun has no attempt; an attempt that was abandoned with the run is in its history.
fn attempt(run: &Run, _now: Timestamp) -> String {
    or_none((run.attempt > 0).then(|| run.attempt.to_string()).as_deref())
}

/// What was seen, and the digest by which it is adopted.
fn seen(observed: &Observed, now: Timestamp) -> String {
    let text = |name: &str| observed.state[name].as_str().map(str::to_owned);
    let status = text("status_name").unwrap_or_else(|| "absent".to_owned());
    let power = text("power").map_or_else(String::new, |power| format!(", power {power}"));
    let ago = age(observed.observed_at, now);
    format!("{status}{power}; seen {ago} ago, digest {}", observed.digest)
}

fn row(attempt: &Attempt, said: &mut Said) -> Vec<String> {
    let undo = if attempt.undo { " (undo)" } else { "" };
    vec![
        time(attempt.started_at),
        duration(attempt.ended_at.duration_since(attempt.started_at)),
        format!("{}{undo}", attempt.stage),
        attempt.attempt.to_string(),
        attempt.outcome.clone(),
        or_none(attempt.class.as_deref()),
        said.once(&or_none(attempt.evidence.as_deref())),
    ]
}

#[cfg(test)]
mod tests {
    use wardroom_api::client::Query;

    use super::asked;

    #[test]
    fn fields_become_parameters_and_the_last_counts() {
        let of = |fields: &str| asked(&Query { field_selector: Some(fields.to_owned()), ..Query::default() });
        let query = of("node_id=a,kind=retire,node_id=b").unwrap();
        assert_eq!((query.node_id.as_deref(), query.kind.as_deref()), (Some("b"), Some("retire")));
        assert!(of("hostname=a").unwrap_err().to_string().contains("node_id="));
        assert!(of("kind").is_err());
    }
}
