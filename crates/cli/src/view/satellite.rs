//! Satellites in columns, found by name or id.

use wardroom_api::{
    Page,
    client::{Client, NodeQuery},
    satellite::Satellite,
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, or_none,
    },
    text::{age, time},
};

impl View for Satellite {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",          Narrow, |satellite, _| satellite.name.clone()),
        column("STATE",         Narrow, |satellite, _| state(satellite)),
        column("SINCE",         Narrow, |satellite, now| age(satellite.state_changed_at, now)),
        column("LAST SEEN",     Narrow, |satellite, now| or_none(satellite.last_seen.map(|seen| age(seen, now)).as_deref())),
        column("GROUPS",        Narrow, |satellite, _| or_none(Some(&satellite.groups.join(",")))),
        column("CONFIG",        Narrow, |satellite, _| or_none(satellite.config_name.as_deref())),
        column("AGE",           Narrow, |satellite, now| age(satellite.created_at, now)),
        column("ID",            Wide,   |satellite, _| satellite.id.clone()),
        column("FLOW",          Wide,   |satellite, _| satellite.flow.clone()),
        column("INTERVAL",      Wide,   |satellite, _| or_none(satellite.heartbeat_interval.as_deref())),
        column("IMAGES",        Wide,   |satellite, _| or_none(images(satellite).as_deref())),
        column("LABELS",        Wide,   |satellite, _| labels(satellite)),
        column("SPIFFE ID",     Full,   |satellite, _| or_none(satellite.spiffe_id.as_deref())),
        column("TOKEN EXPIRES", Full,   |satellite, _| or_none(satellite.token_expires_at.map(time).as_deref())),
        column("REFRESH UNTIL", Full,   |satellite, _| or_none(satellite.refresh_until.map(time).as_deref())),
        column("CREATED",       Full,   |satellite, _| time(satellite.created_at)),
        column("CHANGED",       Full,   |satellite, _| time(satellite.updated_at)),
    ];

    fn name(&self) -> String {
        format!("satellite/{}", self.name)
    }
}

impl Resource for Satellite {
    const KIND: Kind = Kind::Satellite;

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &NodeQuery) -> anyhow::Result<Page<Self>> {
        Ok(client.satellites(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.satellite(id).await?)
    }

    /// The server reads selectors, so it is asked for this satellite among what they select.
    async fn is_selected(&self, client: &Client, query: &NodeQuery) -> anyhow::Result<bool> {
        if *query == NodeQuery::default() {
            return Ok(true);
        }
        // Of a field that is named twice the server takes the last: what was asked for wins.
        let name = format!("name={}", self.name);
        let fields = match &query.field_selector {
            Some(fields) => format!("{name},{fields}"),
            None => name,
        };
        let page = client.satellites(&NodeQuery { field_selector: Some(fields), ..query.clone() }).await?;
        Ok(page.data.iter().any(|satellite| satellite.id == self.id))
    }
}

/// The id of a satellite that is named by its name or id; one that is gone is known by its id only.
pub(crate) async fn id(client: &Client, name: &str) -> anyhow::Result<String> {
    match client.satellite(name).await {
        Ok(satellite) => Ok(satellite.id),
        Err(error) if error.status() == Some(404) => Ok(name.to_owned()),
        Err(error) => Err(error.into()),
    }
}

fn state(satellite: &Satellite) -> String {
    if satellite.refresh_required {
        return format!("{} (refresh)", satellite.state);
    }
    satellite.state.clone()
}

fn images(satellite: &Satellite) -> Option<String> {
    satellite.reported.as_ref()?.image_count.map(|count| count.to_string())
}

fn labels(satellite: &Satellite) -> String {
    let labels: Vec<_> = satellite.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    or_none(Some(&labels.join(",")))
}
