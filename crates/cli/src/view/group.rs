//! Groups in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    group::{Group, GroupType},
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

impl View for Group {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",         Narrow, |group, _| group.name.clone()),
        column("TYPE",         Narrow, |group, _| type_name(group.type_).to_owned()),
        column("PARENT",       Narrow, |group, _| or_none(group.parent_id.as_deref())),
        column("AUTO-PROMOTE", Narrow, |group, _| group.effective_auto_promote.to_string()),
        column("AGE",          Narrow, |group, now| age(group.created_at, now)),
        column("SET-HERE",     Wide,   |group, _| or_none(group.auto_promote.map(|set| set.to_string()).as_deref())),
        column("CREATED",      Full,   |group, _| time(group.created_at)),
        column("CHANGED",      Full,   |group, _| time(group.updated_at)),
    ];

    const APPLIED: Option<Kind> = Some(Kind::Group);

    fn name(&self) -> String {
        format!("group/{}", self.id)
    }
}

fn type_name(type_: GroupType) -> &'static str {
    match type_ {
        GroupType::Device => "device",
        GroupType::User => "user",
    }
}

impl Resource for Group {
    const KIND: Kind = Kind::Group;

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.groups(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.group(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_group(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        suggest::described(action, id)
    }
}
