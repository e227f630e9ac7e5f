//! Auto-promotion: `installed` to `active` without a person, where a setting says so. Off by default.
//!
//! The decision is stored in the commit that ends the installation, and carried out right after; if the
//! server crashes in between, a job finds and completes it.

use wardroom_core::node::{Event, State, TABLE};
use wardroom_store::{List, Resource, TRANSITION};

use crate::{
    kinds::{
        node::document::{self, Document, KIND},
        node::{group, workflow},
    },
    platform::{
        app::{App, Decided, by_system},
        http::error::Error,
    },
};

/// Returns the setting that promotes a node: of its workflow, its device group or its approver's user group.
pub(crate) async fn setting(app: &App, document: &Document) -> Result<Option<String>, Error> {
    if let Some(id) = &document.workflow_id
        && workflow::find(app, id).await?.is_some_and(|workflow| workflow.promote)
    {
        return Ok(Some(format!("workflow {id}")));
    }
    for id in [&document.group_id, &document.approved_by_group].into_iter().flatten() {
        if group::auto_promotes(app, id).await? {
            return Ok(Some(format!("group {id}")));
        }
    }
    Ok(None)
}

/// Promotes an installed node whose record says so.
pub(crate) async fn carry_out(app: &App, node: Resource) -> Result<Resource, Error> {
    if node.content.state != State::Installed.as_str() || Document::of(&node)?.promotion.is_none() {
        return Ok(node);
    }
    let (promoted, ()) = app
        .change(KIND, &node.content.id, |node| {
            let mut document = Document::of(node)?;
            let row = TABLE.find(document::state(node)?, Event::AutoPromote);
            let (Some(row), Some(because)) = (row, document.promotion.clone()) else {
                return Ok(Decided::Nothing(()));
            };
            document.enter(row.to, false, None);
            let content = document.content_of(node, row.to.as_str(), node.content.labels.clone())?;
            let entry = by_system(app, TRANSITION, serde_json::json!({"auto_promote": because}));
            Ok(Decided::Commit(Box::new((content, entry)), ()))
        })
        .await?;
    Ok(promoted)
}

/// Completes promotions that a crashed server left.
pub(crate) async fn carry_out_all(app: &App) -> Result<(), Error> {
    let fields = [(document::PROMOTION.to_owned(), document::DUE.to_owned())].into();
    let mut list = List { kind: KIND.to_owned(), fields, limit: 500, ..List::default() };
    loop {
        let page = app.store.list(&list).await?;
        for node in page.items {
            let id = node.content.id.clone();
            // One node that cannot be promoted must not delay the others.
            if let Err(error) = carry_out(app, node).await {
                tracing::warn!(id, %error, "a node could not be promoted; it is tried again");
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}
