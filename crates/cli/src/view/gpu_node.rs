//! GPU nodes in columns, and the work behind their states.

use jiff::Timestamp;
use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    gpu_node::{GpuNode, Health, Lifecycle, ObservedMachine, RunSummary},
};
use wardroom_server::platform::clock::Clock;

use super::{Resource, Selectable, View};
use crate::{
    fields,
    kind::Kind,
    said::Said,
    suggest::{self, Words},
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        Tones, column, labels, or_none,
    },
    text::{age, time},
};

impl View for GpuNode {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",          Narrow, |node, _| node.hostname.clone()),
        column("STATE",         Narrow, |node, _| node.state.clone()),
        column("SITE",          Narrow, |node, _| or_none(node.site.as_deref())),
        column("SCHEDULABLE",   Narrow, |node, _| node.schedulable.to_string()),
        column("SINCE",         Narrow, |node, now| age(node.state_changed_at, now)),
        column("LAST SEEN",     Narrow, |node, now| or_none(node.last_seen.map(|seen| age(seen, now)).as_deref())),
        column("AGE",           Narrow, |node, now| age(node.created_at, now)),
        column("ID",            Wide,   |node, _| node.id.clone()),
        column("RUN",           Wide,   |node, _| or_none(node.run.as_deref())),
        column("MODEL",         Wide,   |node, _| or_none(node.model.as_deref())),
        column("SYSTEM ID",     Wide,   |node, _| or_none(node.system_id.as_deref())),
        column("LABELS",        Wide,   |node, _| labels(&node.labels)),
        column("MAC ADDRESSES", Full,   |node, _| or_none(Some(&node.macs.join(",")))),
        column("BMC",           Full,   |node, _| or_none(node.bmc.as_ref().map(|bmc| bmc.address.as_str()))),
        column("SERIAL NUMBER", Full,   |node, _| or_none(node.serial_number.as_deref())),
        column("ENROLLED",      Full,   |node, _| or_none(node.enrolled.then_some("yes"))),
        column("IDENTITY KEPT", Full,   |node, _| or_none(node.identity_kept.then_some("yes"))),
        column("REGISTERED",    Full,   |node, _| time(node.created_at)),
        column("CHANGED",       Full,   |node, _| time(node.updated_at)),
    ];

    const TONES: Tones = Tones::Of("gpu-node");

    const LAYERS: &'static [(&'static str, &'static [&'static str])] =
        &[("Desired", &["SITE", "LABELS", "MAC ADDRESSES", "BMC", "MODEL", "SERIAL NUMBER"])];

    const HIDDEN: &'static [&'static str] = &["AGE", "SINCE", "LAST SEEN", "SYSTEM ID", "RUN"];

    const USUAL: &'static [usize] = &[10, 20, 8];

    /// A deleted node is named by its id: another node may have its hostname.
    fn name(&self) -> String {
        format!("gpu-node/{}", if self.deleted { &self.id } else { &self.hostname })
    }
}

impl Resource for GpuNode {
    const KIND: Kind = Kind::GpuNode;
    const SELECTABLE: Selectable = Selectable::ByLabels;
    const EXPLAINED: bool = true;
    const LISTED_DELETED: bool = true;

    fn id(&self) -> &str {
        &self.id
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.gpu_nodes(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.gpu_node(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_gpu_node(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        Some(match &*action.action {
            "delete" => Words::whole(&["delete", "gpu-node", id]),
            verb => Words::open(&["gpu-node", &suggest::kebab(verb), id]),
        })
    }

    fn selector(&self) -> Option<String> {
        Some(format!("hostname={}", self.hostname))
    }

    fn title(&self) -> &str {
        &self.hostname
    }

    fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    async fn print_details(&self, client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        let (lifecycle, now) = (client.gpu_node_lifecycle(&self.id).await?, Clock.now());
        fields::section("Observed", &observed(self, &lifecycle, now))?;
        fields::section("Work", &work(&lifecycle))
    }
}

fn observed(node: &GpuNode, lifecycle: &Lifecycle, now: Timestamp) -> Vec<(&'static str, String)> {
    let seen = node.last_seen.map(|seen| ("Last seen", format!("{} ago", age(seen, now))));
    let maas = lifecycle.maas.as_ref().map(|seen| ("MAAS", maas(seen, lifecycle.fits, now)));
    let agent = lifecycle.health.as_ref().map(|health| ("Agent", agent(&lifecycle.state, health, now)));
    seen.into_iter().chain(maas).chain(agent).collect()
}

fn work(lifecycle: &Lifecycle) -> Vec<(&'static str, String)> {
    let mut lines = lifecycle.run.as_ref().map(run).unwrap_or_default();
    lines.extend(lifecycle.task.as_ref().map(|task| ("Task", format!("{} is {}", task.kind, task.state))));
    let mut allowed: Vec<_> =
        lifecycle.allowed_actions.iter().map(|action| suggest::kebab(&action.action)).collect();
    let modes = lifecycle.allowed_decommissions.join("|");
    allowed.extend((!modes.is_empty()).then(|| format!("decommission --mode {modes}")));
    lines.push(("Allowed", or_none(Some(&allowed.join(", ")))));
    lines
}

fn run(run: &RunSummary) -> Vec<(&'static str, String)> {
    let attempt = if run.attempt > 0 { format!(", attempt {}", run.attempt) } else { String::new() };
    let at = format!("{} is {} at {}{attempt}", run.kind, run.state, run.stage);
    let mut lines = vec![("Run", at), ("Run ID", run.id.clone())];
    lines.extend(run.waiting_for.clone().map(|reason| ("Waiting for", reason)));
    lines.extend(run.due_at.map(|due| ("Next look", time(due))));
    lines
}

fn maas(seen: &ObservedMachine, fits: Option<bool>, now: Timestamp) -> String {
    let status = seen.status_name.as_deref().unwrap_or(if seen.present { "unknown" } else { "absent" });
    let power = seen.power.as_deref().map_or_else(String::new, |power| format!(", power {power}"));
    let fits = if fits == Some(false) { ", which does not fit the state" } else { "" };
    format!("{} is {status}{power}{fits}; seen {} ago", seen.system_id, age(seen.observed_at, now))
}

fn agent(state: &str, health: &Health, now: Timestamp) -> String {
    let failing = health.checks.iter().filter(|check| !check.ok);
    let failing: Vec<_> = failing
        .map(|check| {
            let said = check.message.as_deref().filter(|said| !said.trim().is_empty());
            format!("{}: {}", check.name, said.unwrap_or("failed"))
        })
        .collect();
    let said =
        if health.healthy { "healthy".to_owned() } else { format!("not healthy: {}", failing.join("; ")) };
    // The health of an offline node is of the past: it fell silent, or has just left other work.
    let was = if state == "offline" { "was " } else { "" };
    format!("{was}{said}; last news {} ago", age(health.received_at, now))
}
