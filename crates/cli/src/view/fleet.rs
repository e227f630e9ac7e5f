//! Fleets in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    device::{Fleet, RolloutStatus},
};

use super::{Resource, Said, Selectable, View};
use crate::{
    kind::Kind,
    output,
    suggest::{Words, described},
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        Tones, column, labels, or_none,
    },
    text::{age, time},
};

impl View for Fleet {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",     Narrow, |fleet, _| fleet.metadata.name.clone()),
        column("STATE",    Narrow, |fleet, _| state(fleet)),
        column("DEVICES",  Narrow, |fleet, _| or_none(fleet.status.as_ref().map(|status| status.devices.to_string()).as_deref())),
        column("UPDATED",  Narrow, |fleet, _| count(fleet, |rollout| rollout.updated)),
        column("UPDATING", Narrow, |fleet, _| count(fleet, |rollout| rollout.updating)),
        column("FAILED",   Narrow, |fleet, _| count(fleet, |rollout| rollout.failed)),
        column("WAITING",  Narrow, |fleet, _| count(fleet, |rollout| rollout.waiting)),
        column("VERSION",  Narrow, |fleet, _| or_none(fleet.spec.template_version.as_deref())),
        column("AGE",      Narrow, |fleet, now| or_none(fleet.metadata.creation_timestamp.map(|at| age(at, now)).as_deref())),
        column("BATCH",    Wide,   |fleet, _| batch(fleet)),
        column("SELECTOR", Wide,   |fleet, _| selector(fleet)),
        column("LABELS",   Wide,   |fleet, _| labels(&fleet.metadata.labels)),
        column("CREATED",  Full,   |fleet, _| or_none(fleet.metadata.creation_timestamp.map(time).as_deref())),
    ];

    const USUAL: &'static [usize] = &[16, 9, 7, 7, 8, 6, 7, 7, 5];
    const TONES: Tones = Tones::Of("fleet");

    fn name(&self) -> String {
        format!("fleet/{}", self.metadata.name)
    }
}

impl Resource for Fleet {
    const KIND: Kind = Kind::Fleet;
    const CONDITIONED: bool = true;
    const SELECTABLE: Selectable = Selectable::ByLabels;
    const EXPLAINED: bool = true;
    const LISTED_DELETED: bool = true;
    const DELETED: &'static str = "deleted; its devices keep their specs";

    fn id(&self) -> &str {
        &self.metadata.name
    }

    fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        let state = query.state.as_ref().map(|state| format!("status.rollout.state={state}"));
        let fields = [state, query.field_selector.clone()];
        let fields = fields.into_iter().flatten().reduce(|all, one| format!("{all},{one}"));
        Ok(client.fleets(&Query { state: None, field_selector: fields, ..query.clone() }).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.fleet(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_fleet(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        match &*action.action {
            verb @ ("pause" | "resume" | "rollback") => Some(Words::open(&["fleet", verb, id])),
            _ => described(action, id),
        }
    }

    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        let Some(status) = &self.status else { return Ok(()) };
        let rollout = &status.rollout;
        output::line(&format!("Rollout: {}. {}", rollout.state, rollout.info))?;
        for cause in &rollout.causes {
            output::line(&format!("  {cause}"))?;
        }
        for condition in &status.conditions {
            output::line(&format!("{}: {}", condition.r#type, condition.message))?;
        }
        output::line("\nSpec:")?;
        output::yaml(&self.spec)
    }
}

fn state(fleet: &Fleet) -> String {
    let state = or_none(fleet.status.as_ref().map(|status| &*status.rollout.state));
    if fleet.is_deleted() { format!("deleted (was {state})") } else { state }
}

fn count(fleet: &Fleet, of: fn(&RolloutStatus) -> u64) -> String {
    or_none(fleet.status.as_ref().map(|status| of(&status.rollout).to_string()).as_deref())
}

fn batch(fleet: &Fleet) -> String {
    let rollout =
        fleet.status.as_ref().map(|status| &status.rollout).filter(|rollout| rollout.current_batch > 0);
    or_none(rollout.map(|rollout| format!("{}/{}", rollout.current_batch, rollout.batches)).as_deref())
}

fn selector(fleet: &Fleet) -> String {
    let selector = &fleet.spec.selector;
    let expressions = selector.match_expressions.iter().map(|expression| {
        format!("{} {} ({})", expression.key, expression.operator, expression.values.join(","))
    });
    let all: Vec<_> = selector
        .match_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .chain(expressions)
        .collect();
    or_none(Some(all.join(",")).filter(|text| !text.is_empty()).as_deref())
}
