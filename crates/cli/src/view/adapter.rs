//! Adapters in columns, and what each has to do.

use wardroom_api::{
    Page,
    adapter::{Adapter, Concern},
    client::{Client, Query},
    found::Found,
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    locate::Among,
    output,
    said::Said,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, or_none,
    },
    text::{age, time},
};

impl View for Adapter {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",         Narrow, |adapter, _| adapter.name.clone()),
        column("STATE",        Narrow, |adapter, _| adapter.state.clone()),
        column("WAITING",      Narrow, |adapter, _| count(&adapter.waiting)),
        column("FAILING",      Narrow, |adapter, _| count(&adapter.failing)),
        column("SILENT",       Narrow, |adapter, _| count(&adapter.silent)),
        column("HEARD",        Narrow, |adapter, now| adapter.last_heard.map_or_else(|| "<never>".to_owned(), |at| age(at, now))),
        column("LISTENING",    Wide,   |adapter, _| adapter.listening.to_string()),
        column("REQUIRED FOR", Wide,   |adapter, _| adapter.required_for.join(",")),
        column("LAST HEARD",   Full,   |adapter, _| or_none(adapter.last_heard.map(time).as_deref())),
    ];

    fn name(&self) -> String {
        format!("adapter/{}", self.name)
    }
}

impl Resource for Adapter {
    const KIND: Kind = Kind::Adapter;
    const EXPLAINED: bool = true;
    const KEPT: Option<&'static str> = Some(
        "adapters are names in clusters.required_adapters and node_pools.required_adapters; take the name out there",
    );

    fn id(&self) -> &str {
        &self.name
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.adapters(query).await?)
    }

    /// An adapter is no stored resource: it is known by its whole name.
    async fn named(client: &Client, typed: &str, _among: Among) -> anyhow::Result<Vec<Found>> {
        match client.adapter(typed).await {
            Ok(adapter) => Ok(vec![Found {
                kind: Self::KIND.as_str().to_owned(),
                id: adapter.name.clone(),
                name: adapter.name,
                state: adapter.state,
                deleted: false,
            }]),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.adapter(id).await?)
    }

    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        for (title, concern) in
            [("Silent", &self.silent), ("Failing", &self.failing), ("Waiting", &self.waiting)]
        {
            if concern.examples.is_empty() {
                continue;
            }
            output::line(&format!("\n{title}:"))?;
            for one in &concern.examples {
                output::line(&format!("  {}/{}  {}", one.kind, one.name, one.detail))?;
            }
            let more = concern.count.saturating_sub(concern.examples.len() as u64);
            if more > 0 {
                output::line(&format!("  and {more} more"))?;
            }
        }
        Ok(())
    }
}

fn count(concern: &Concern) -> String {
    format!("{}{}", concern.count, if concern.or_more { "+" } else { "" })
}
