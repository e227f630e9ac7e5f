//! Incidents in columns.

use wardroom_api::{
    Page,
    client::{Client, Query},
    liveness::Incident,
};

use super::{Resource, View};
use crate::{
    kind::Kind,
    table::{
        Column,
        Level::{Narrow, Wide},
        Tones, column, or_none,
    },
    text::{age, time},
};

impl View for Incident {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("ZONE",       Narrow, |incident, _| incident.title().to_owned()),
        column("STATE",      Narrow, |incident, _| incident.state.clone()),
        column("SILENT",     Narrow, |incident, _| format!("{} of {}", incident.silent, incident.watched)),
        column("AGE",        Narrow, |incident, now| age(incident.raised_at, now)),
        column("ENDED",      Narrow, |incident, _| or_none(incident.ended_at.map(time).as_deref())),
        column("ID",         Narrow, |incident, _| incident.id.clone()),
        column("HELD UNTIL", Wide,   |incident, _| or_none(incident.held_until.map(time).as_deref())),
        column("WHY",        Wide,   |incident, _| incident.why.clone()),
    ];

    const TONES: Tones = Tones::Of("incident");

    const HIDDEN: &'static [&'static str] = &[];

    fn name(&self) -> String {
        format!("incident/{}", self.id)
    }
}

impl Resource for Incident {
    const KIND: Kind = Kind::Incident;
    const KEPT: Option<&'static str> = Some("incidents are kept; they end by themselves");

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.incidents(query).await?)
    }

    fn title(&self) -> &str {
        self.zone.as_deref().unwrap_or("<fleet>")
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.incident(id).await?)
    }
}
