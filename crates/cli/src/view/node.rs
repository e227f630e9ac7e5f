//! Nodes in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    node::Node,
};

use super::{Resource, Selectable, View};
use crate::{
    kind::Kind,
    suggest::Words,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        Tones, column, labels, or_none,
    },
    text::{age, time},
};

impl View for Node {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",          Narrow, |node, _| node.title().to_owned()),
        column("STATE",         Narrow, |node, _| state(node)),
        column("MAC",           Narrow, |node, _| node.mac_address.clone()),
        column("WORKFLOW",      Narrow, |node, _| or_none(node.workflow_id.as_deref())),
        column("SINCE",         Narrow, |node, now| age(node.state_changed_at, now)),
        column("AGE",           Narrow, |node, now| age(node.created_at, now)),
        column("ID",            Wide,   |node, _| node.id.clone()),
        column("GROUP",         Wide,   |node, _| or_none(node.group_id.as_deref())),
        column("IP",            Wide,   |node, _| or_none(node.ip_address.as_deref())),
        column("ATTEMPTS",      Wide,   |node, _| node.install_attempts.to_string()),
        column("PROGRESS",      Wide,   |node, _| or_none(node.install_progress.map(|percent| format!("{percent}%")).as_deref())),
        column("LABELS",        Wide,   |node, _| labels(&node.labels)),
        column("LAST BOOT",     Full,   |node, _| or_none(node.last_boot_at.map(time).as_deref())),
        column("BOOT SCRIPTS",  Full,   |node, _| or_none((node.boot_scripts > 0).then(|| node.boot_scripts.to_string()).as_deref())),
        column("LAST ERROR",    Full,   |node, _| or_none(node.last_install_error.as_deref())),
        column("VENDOR",        Full,   |node, _| or_none(node.vendor.as_deref())),
        column("MODEL",         Full,   |node, _| or_none(node.model.as_deref())),
        column("SERIAL NUMBER", Full,   |node, _| or_none(node.serial_number.as_deref())),
        column("SYSTEM UUID",   Full,   |node, _| or_none(node.system_uuid.as_deref())),
        column("REGISTERED",    Full,   |node, _| time(node.created_at)),
        column("CHANGED",       Full,   |node, _| time(node.updated_at)),
    ];

    const TONES: Tones = Tones::Of("node");

    const LAYERS: &'static [(&'static str, &'static [&'static str])] = &[
        ("Desired", &["WORKFLOW", "GROUP", "LABELS"]),
        (
            "Observed",
            &[
                "IP",
                "PROGRESS",
                "ATTEMPTS",
                "LAST BOOT",
                "BOOT SCRIPTS",
                "VENDOR",
                "MODEL",
                "SERIAL NUMBER",
                "SYSTEM UUID",
            ],
        ),
    ];

    const HIDDEN: &'static [&'static str] = &["AGE", "SINCE", "LAST ERROR"];

    const APPLIED: Option<Kind> = Some(Kind::Node);

    const USUAL: &'static [usize] = &[17, 14, 17];

    fn name(&self) -> String {
        format!("node/{}", self.id)
    }
}

impl Resource for Node {
    const KIND: Kind = Kind::Node;
    const SELECTABLE: Selectable = Selectable::ByLabels;
    const EXPLAINED: bool = true;
    const LISTED_DELETED: bool = true;

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.nodes(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.node(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_node(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        match &*action.action {
            "assign" => Some(Words::open(&["node", "assign", id])),
            _ if action.path.ends_with("/state") => Some(Words::open(&["node", "move", id])),
            _ => None,
        }
    }

    fn title(&self) -> &str {
        self.hostname.as_deref().unwrap_or(&self.mac_address)
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn selector(&self) -> Option<String> {
        Some(format!("mac_address={}", self.mac_address))
    }
}

fn state(node: &Node) -> String {
    // A deleted node keeps its last state.
    if node.deleted { format!("deleted (was {})", node.state) } else { node.state.clone() }
}
