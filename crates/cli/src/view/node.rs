//! Nodes in columns, found by id or MAC.

use wardroom_api::{
    Page,
    client::{Client, Query},
    node::Node,
};
use wardroom_core::node::State;

use super::{Resource, Selectable, View};
use crate::{
    exit::{self, Code, not_found},
    kind::Kind,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, labels, or_none,
    },
    text::{age, time},
};

impl View for Node {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("ID",            Narrow, |node, _| node.id.clone()),
        column("MAC",           Narrow, |node, _| node.mac_address.clone()),
        column("HOSTNAME",      Narrow, |node, _| or_none(node.hostname.as_deref())),
        column("STATE",         Narrow, |node, _| state(node)),
        column("WORKFLOW",      Narrow, |node, _| or_none(node.workflow_id.as_deref())),
        column("SINCE",         Narrow, |node, now| age(node.state_changed_at, now)),
        column("AGE",           Narrow, |node, now| age(node.created_at, now)),
        column("GROUP",         Wide,   |node, _| or_none(node.group_id.as_deref())),
        column("IP",            Wide,   |node, _| or_none(node.ip_address.as_deref())),
        column("ATTEMPTS",      Wide,   |node, _| node.install_attempts.to_string()),
        column("PROGRESS",      Wide,   |node, _| or_none(node.install_progress.map(|percent| format!("{percent}%")).as_deref())),
        column("LABELS",        Wide,   |node, _| labels(&node.labels)),
        column("LAST BOOT",     Full,   |node, _| or_none(node.last_boot_at.map(time).as_deref())),
        column("BOOT SCRIPTS",  Full,   |node, _| node.boot_scripts.to_string()),
        column("LAST ERROR",    Full,   |node, _| or_none(node.last_install_error.as_deref())),
        column("VENDOR",        Full,   |node, _| or_none(node.vendor.as_deref())),
        column("MODEL",         Full,   |node, _| or_none(node.model.as_deref())),
        column("SERIAL NUMBER", Full,   |node, _| or_none(node.serial_number.as_deref())),
        column("SYSTEM UUID",   Full,   |node, _| or_none(node.system_uuid.as_deref())),
        column("REGISTERED",    Full,   |node, _| time(node.created_at)),
        column("CHANGED",       Full,   |node, _| time(node.updated_at)),
    ];

    const APPLIED: Option<Kind> = Some(Kind::Node);

    const USUAL: &'static [usize] = &[36, 17, 10, 14];

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
        match as_mac(id) {
            Some(mac) => by_mac(client, &mac).await,
            None => Ok(client.node(id).await?),
        }
    }

    async fn id_of(client: &Client, called: &str) -> anyhow::Result<String> {
        match as_mac(called) {
            Some(mac) => match by_mac(client, &mac).await {
                Ok(node) => Ok(node.id),
                // History knows a deleted node by its MAC.
                Err(error) if exit::code(&error) == Code::NotFound => Ok(mac),
                Err(error) => Err(error),
            },
            None => Ok(called.to_owned()),
        }
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

fn as_mac(text: &str) -> Option<String> {
    let parts: Vec<_> = text.split([':', '-']).collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (parts.len() == 6 && parts.iter().all(is_byte)).then(|| parts.join(":").to_ascii_lowercase())
}

/// Returns the node with a MAC; a retired one only if there is no other.
async fn by_mac(client: &Client, mac: &str) -> anyhow::Result<Node> {
    let query = Query { field_selector: Some(format!("mac_address={mac}")), ..Query::default() };
    let found = client.nodes(&query).await?.data;
    let (retired, mut living): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|node| node.state == State::Retired.as_str());
    if let Some(node) = living.pop() {
        return Ok(node);
    }
    let ids: Vec<_> = retired.iter().map(|node| node.id.clone()).collect();
    match (retired.into_iter().next(), ids.len()) {
        (Some(node), 1) => Ok(node),
        (None, _) => Err(not_found(Kind::Node, format!("there is no node with the MAC {mac}"))),
        (Some(_), _) => Err(not_found(
            Kind::Node,
            format!("only retired nodes have the MAC {mac}: give one of their ids: {}", ids.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::as_mac;

    #[test]
    fn a_mac_is_told_from_an_id() {
        assert_eq!(as_mac("52-54-00-AB-cd-01").as_deref(), Some("52:54:00:ab:cd:01"));
        assert_eq!(as_mac("019a8b7c-0000-7000-8000-000000000000"), None);
        assert_eq!(as_mac("52:54:00:ab:cd"), None);
    }
}
