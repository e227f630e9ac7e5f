//! What `wardroom apply --prune` deletes: resources with some labels that no document describes any more.
//!
//! Members are never pruned: a machine that no document names is still there. They are retired by their own verbs.

use std::collections::BTreeMap;

use serde_json::Value;
use wardroom_api::{
    client::{Client, Query},
    cluster::{Cluster, NodePool},
    device::Fleet,
};

use crate::{
    command::get::list,
    locate::Target,
    manifest::Subject,
    outcome::{Consent, Outcome},
    output, text,
    view::Resource,
};

/// Labels that a resource must have to be pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels(BTreeMap<String, String>);

/// Reads `app=web,team=pos`. Other selectors could match what a person did not mean.
pub(crate) fn labels(text: &str) -> Result<Labels, String> {
    let wrong = || "write labels with their values, such as app=web,team=pos".to_owned();
    let pair = |part: &str| {
        let (name, value) = part.trim().split_once('=').ok_or_else(wrong)?;
        let is_plain = |text: &str| !text.is_empty() && !text.contains(['=', '!', '(', ')', ' ']);
        if is_plain(name) && is_plain(value) { Ok((name.to_owned(), value.to_owned())) } else { Err(wrong()) }
    };
    text.split(',').map(pair).collect::<Result<_, _>>().map(Labels)
}

/// A resource that no document describes any more.
pub(super) enum Leftover {
    Fleet(Target),
    NodePool(Target),
    Cluster(Target),
}

impl Leftover {
    fn subject(&self) -> String {
        let (kind, target) = match self {
            Self::Fleet(target) => (Fleet::KIND, target),
            Self::NodePool(target) => (NodePool::KIND, target),
            Self::Cluster(target) => (Cluster::KIND, target),
        };
        format!("{}/{}", kind.as_str(), target.name)
    }

    async fn delete(&self, client: &Client) -> anyhow::Result<&'static str> {
        match self {
            Self::Fleet(target) => Fleet::delete(client, &target.id).await.map(|()| Fleet::DELETED),
            Self::NodePool(target) => NodePool::delete(client, &target.id).await.map(|()| NodePool::DELETED),
            Self::Cluster(target) => Cluster::delete(client, &target.id).await.map(|()| Cluster::DELETED),
        }
    }
}

/// The resources with these labels that none of the documents describes; node pools before the clusters that own them.
pub(super) async fn leftovers(
    client: &Client,
    labels: &Labels,
    described: &[Subject],
) -> anyhow::Result<Vec<Leftover>> {
    let mut found: Vec<_> =
        of::<Fleet>(client, labels, described).await?.into_iter().map(Leftover::Fleet).collect();
    found.extend(of::<NodePool>(client, labels, described).await?.into_iter().map(Leftover::NodePool));
    found.extend(of::<Cluster>(client, labels, described).await?.into_iter().map(Leftover::Cluster));
    Ok(found)
}

async fn of<T: Resource>(
    client: &Client,
    labels: &Labels,
    described: &[Subject],
) -> anyhow::Result<Vec<Target>> {
    let all: Vec<T> = list(client, &Query::default(), usize::MAX).await?;
    let mut found = Vec::new();
    for item in all {
        let shown = serde_json::to_value(&item)?;
        let name = item.title();
        let is_described =
            described.iter().any(|subject| subject.kind == T::KIND.as_str() && subject.name == name);
        if !is_described && !is_going(&shown) && labels.are_on(&shown) {
            found.push(Target { id: item.id().to_owned(), name: name.to_owned() });
        }
    }
    Ok(found)
}

/// Whether a resource waits for its adapters to be removed.
fn is_going(item: &Value) -> bool {
    item["deleted_time"].is_string()
}

impl Labels {
    fn are_on(&self, item: &Value) -> bool {
        let has = |labels: &Value| self.0.iter().all(|(name, value)| labels[name] == **value);
        has(&item["labels"]) || has(&item["metadata"]["labels"])
    }
}

/// Says what would be deleted.
pub(super) fn foretell(leftovers: &[Leftover]) -> anyhow::Result<()> {
    leftovers.iter().try_for_each(|leftover| {
        output::line(&format!("{} would be deleted", text::clean(&leftover.subject())))
    })
}

/// Shows what is left over, asks, and deletes it.
pub(super) async fn prune(
    client: &Client,
    leftovers: &[Leftover],
    consent: &Consent,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for leftover in leftovers {
        output::note(&format!("to prune: {}", text::clean(&leftover.subject())));
    }
    // Even one is asked for: the command names none of them.
    let what = text::count(i64::try_from(leftovers.len())?, "resource");
    consent.ask(&format!("delete {what} that no document describes"), leftovers.len().max(2))?;
    for leftover in leftovers {
        let deleted = leftover.delete(client).await.map(str::to_owned);
        outcome.add(&leftover.subject(), deleted)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::labels;

    #[test]
    fn labels_have_values() {
        let wanted = labels("app=web, team=pos").unwrap();
        assert!(wanted.are_on(&json!({"labels": {"app": "web", "team": "pos", "x": "y"}})));
        assert!(wanted.are_on(&json!({"metadata": {"labels": {"app": "web", "team": "pos"}}})));
        for other in
            [json!({}), json!({"labels": {"app": "web"}}), json!({"labels": {"app": "web", "team": "x"}})]
        {
            assert!(!wanted.are_on(&other), "{other}");
        }
        for wrong in ["", "app", "app=", "=web", "app!=web", "app in (web)", "app=web,", "!app"] {
            assert!(labels(wrong).is_err(), "{wrong}");
        }
    }
}
