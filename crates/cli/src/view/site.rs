//! Sites in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    site::Site,
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    output,
    said::Said,
    suggest::{self, Words},
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, or_none,
    },
    text::{age, time},
};

impl View for Site {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",    Narrow, |site, _| site.name.clone()),
        column("URL",     Narrow, |site, _| site.settings.url.clone()),
        column("SERIES",  Narrow, |site, _| site.settings.series.clone()),
        column("SUBNET",  Narrow, |site, _| or_none(Some(&site.settings.provisioning_subnet))),
        column("AGE",     Narrow, |site, now| age(site.created_at, now)),
        column("KEY",     Wide,   |site, _| or_none(Some(&site.settings.key))),
        column("POOL",    Wide,   |site, _| or_none(site.settings.pool.as_deref())),
        column("ZONE",    Wide,   |site, _| or_none(site.settings.zone.as_deref())),
        column("TAG",     Wide,   |site, _| or_none(Some(&site.settings.tag))),
        column("CREATED", Full,   |site, _| time(site.created_at)),
        column("CHANGED", Full,   |site, _| time(site.updated_at)),
    ];

    const APPLIED: Option<Kind> = Some(Kind::Site);

    fn name(&self) -> String {
        format!("site/{}", self.name)
    }
}

impl Resource for Site {
    const KIND: Kind = Kind::Site;
    const USERS: Option<&'static str> = Some("gpu-nodes --field-selector site=");

    fn id(&self) -> &str {
        &self.name
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.sites(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.site(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_site(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        suggest::described(action, id)
    }

    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        output::line("\nSettings:")?;
        output::yaml(&self.settings)
    }
}
