//! Workflows in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    workflow::Workflow,
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    suggest::{self, Words},
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, or_none,
    },
    text::{age, time},
};

impl View for Workflow {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",      Narrow, |workflow, _| workflow.name.clone()),
        column("KERNEL",    Narrow, |workflow, _| workflow.kernel.clone()),
        column("PROMOTE",   Narrow, |workflow, _| workflow.promote.to_string()),
        column("AGE",       Narrow, |workflow, now| age(workflow.created_at, now)),
        column("INITRD",    Wide,   |workflow, _| or_none(Some(&workflow.initrd.join(",")))),
        column("IMAGE",     Wide,   |workflow, _| or_none(workflow.image.as_deref())),
        column("ARGUMENTS", Wide,   |workflow, _| or_none(Some(&workflow.arguments))),
        column("CREATED",   Full,   |workflow, _| time(workflow.created_at)),
        column("CHANGED",   Full,   |workflow, _| time(workflow.updated_at)),
    ];

    const APPLIED: Option<Kind> = Some(Kind::Workflow);

    fn name(&self) -> String {
        format!("workflow/{}", self.id)
    }
}

impl Resource for Workflow {
    const KIND: Kind = Kind::Workflow;
    const USERS: Option<&'static str> = Some("nodes --field-selector workflow_id=");

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.workflows(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.workflow(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_workflow(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        suggest::described(action, id)
    }
}
