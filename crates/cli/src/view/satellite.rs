//! Satellites in columns.

use jiff::Timestamp;
use wardroom_api::{
    Page,
    action::Action,
    client::{self, Client, Query},
    satellite::{EffectProgress, Satellite},
};

use super::{Resource, Selectable, View};
use crate::{
    kind::Kind,
    suggest::{self, Words},
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        Tones, column, labels, or_none,
    },
    text::{age, time},
};

impl View for Satellite {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",          Narrow, name),
        column("STATE",         Narrow, |satellite, _| state(satellite)),
        column("SINCE",         Narrow, |satellite, now| age(satellite.state_changed_at, now)),
        column("LAST SEEN",     Narrow, |satellite, now| or_none(satellite.last_seen.map(|seen| age(seen, now)).as_deref())),
        column("GROUPS",        Narrow, |satellite, _| or_none(Some(&satellite.groups.join(",")))),
        column("CONFIG",        Narrow, |satellite, _| or_none(satellite.config_name.as_deref())),
        column("AGE",           Narrow, |satellite, now| age(satellite.created_at, now)),
        column("ID",            Wide,   |satellite, _| satellite.id.clone()),
        column("FLOW",          Wide,   |satellite, _| satellite.flow.clone()),
        column("INTERVAL",      Wide,   |satellite, _| or_none(interval(satellite))),
        column("IMAGES",        Wide,   |satellite, _| or_none(images(satellite).as_deref())),
        column("LABELS",        Wide,   |satellite, _| labels(&satellite.labels)),
        column("REPORTED",      Full,   |satellite, _| or_none(satellite.reported.as_ref().map(|said| time(said.received_at)).as_deref())),
        column("LAST SYNC",     Full,   |satellite, _| or_none(last_sync(satellite).as_deref())),
        column("SPIFFE ID",     Full,   |satellite, _| or_none(satellite.spiffe_id.as_deref())),
        column("TOKEN EXPIRES", Full,   |satellite, _| or_none(satellite.token_expires_at.map(time).as_deref())),
        column("REFRESH UNTIL", Full,   |satellite, _| or_none(satellite.refresh_until.map(time).as_deref())),
        column("CREATED",       Full,   |satellite, _| time(satellite.created_at)),
        column("CHANGED",       Full,   |satellite, _| time(satellite.updated_at)),
    ];

    const TONES: Tones = Tones::Of("satellite");

    const LAYERS: &'static [(&'static str, &'static [&'static str])] = &[
        ("Desired", &["GROUPS", "CONFIG", "LABELS", "INTERVAL"]),
        ("Observed", &["LAST SEEN", "REPORTED", "IMAGES", "LAST SYNC"]),
    ];

    const HIDDEN: &'static [&'static str] = &["AGE", "SINCE"];

    const USUAL: &'static [usize] = &[10, 18, 5, 9];

    /// A deleted satellite is named by its id: another satellite may have its name.
    fn name(&self) -> String {
        format!("satellite/{}", if self.deleted { &self.id } else { &self.name })
    }
}

impl Resource for Satellite {
    const KIND: Kind = Kind::Satellite;
    const SELECTABLE: Selectable = Selectable::ByLabels;
    const EXPLAINED: bool = true;
    const LISTED_DELETED: bool = true;

    fn id(&self) -> &str {
        &self.id
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.satellites(query).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.satellite(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_satellite(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        match &*action.action {
            verb @ ("revoke" | "reenable") => Some(Words::open(&["satellite", verb, id])),
            "assign_config" if suggest::has_null(action, "config_name") => {
                Some(Words::whole(&["satellite", "unassign", id, "--config"]))
            }
            "assign_config" => Some(Words::open(&["satellite", "assign", id])),
            _ => None,
        }
    }

    fn title(&self) -> &str {
        &self.name
    }

    fn selector(&self) -> Option<String> {
        Some(format!("name={}", self.name))
    }

    async fn effects(client: &Client, id: &str) -> Result<Option<Vec<EffectProgress>>, client::Error> {
        client.satellite_effects(id).await.map(Some)
    }
}

/// Adds the id to the name of a deleted satellite: another one may have the name now.
fn name(satellite: &Satellite, _now: Timestamp) -> String {
    if satellite.deleted { format!("{} ({})", satellite.name, satellite.id) } else { satellite.name.clone() }
}

fn state(satellite: &Satellite) -> String {
    // A deleted satellite keeps its last state.
    if satellite.deleted {
        return format!("deleted (was {})", satellite.state);
    }
    if satellite.refresh_required {
        return format!("{} (refresh)", satellite.state);
    }
    match satellite.silence.as_deref() {
        // A late member may be heard the next moment.
        None | Some("late") => satellite.state.clone(),
        Some(silence) => format!("{} ({silence})", satellite.state),
    }
}

fn interval(satellite: &Satellite) -> Option<&str> {
    satellite.interval_in_force.as_deref().or(satellite.heartbeat_interval.as_deref())
}

/// How long its last replication took, and the state that it has since, as far as it says so.
fn last_sync(satellite: &Satellite) -> Option<String> {
    let said = satellite.reported.as_ref()?;
    // A client that does not measure it reports 0.
    let took = said.last_sync_duration_ms.filter(|took| *took > 0).map(|took| format!("took {took} ms"));
    let state = said.latest_state_digest.as_ref().map(|digest| format!("state {digest}"));
    let parts: Vec<_> = took.into_iter().chain(state).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn images(satellite: &Satellite) -> Option<String> {
    satellite.reported.as_ref()?.image_count.map(|count| count.to_string())
}
