//! Devices in columns.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    device::{Device, StatusOf},
};

use super::{Resource, Said, Selectable, View};
use crate::{
    kind::Kind,
    output,
    suggest::Words,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, labels, or_none,
    },
    text::{age, time},
};

impl View for Device {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",         Narrow, |device, _| device.metadata.name.clone()),
        column("OWNER",        Narrow, |device, _| or_none(device.metadata.owner.as_deref())),
        column("STATE",        Narrow, |device, _| state(device)),
        column("UPDATED",      Narrow, |device, _| of(device, |status| &status.updated)),
        column("APPLICATIONS", Narrow, |device, _| of(device, |status| &status.application_summary)),
        column("LAST SEEN",    Narrow, |device, now| or_none(seen(device).map(|seen| age(seen, now)).as_deref())),
        column("LIFECYCLE",    Wide,   |device, _| of(device, |status| &status.lifecycle)),
        column("VERSION",      Wide,   |device, _| or_none(device.metadata.annotations.get("renderedVersion").map(String::as_str))),
        column("LABELS",       Wide,   |device, _| labels(&device.metadata.labels)),
        column("CERTIFICATE",  Full,   |device, _| certificate(device)),
        column("CREATED",      Full,   |device, _| or_none(device.metadata.creation_timestamp.map(time).as_deref())),
    ];

    const USUAL: &'static [usize] = &[52, 12, 9, 9, 12, 9];

    fn name(&self) -> String {
        format!("device/{}", self.metadata.name)
    }
}

impl Resource for Device {
    const KIND: Kind = Kind::Device;
    const CONDITIONED: bool = true;
    const SELECTABLE: Selectable = Selectable::ByLabels;
    const EXPLAINED: bool = true;
    const LISTED_DELETED: bool = true;

    fn id(&self) -> &str {
        &self.metadata.name
    }

    fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        // The state of a device is its summary.
        let state = query.state.as_ref().map(|state| format!("status.summary.status={state}"));
        let fields = [state, query.field_selector.clone()];
        let fields = fields.into_iter().flatten().reduce(|all, one| format!("{all},{one}"));
        Ok(client.devices(&Query { state: None, field_selector: fields, ..query.clone() }).await?)
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.device(id).await?)
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_device(id).await.map(drop)?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        match &*action.action {
            verb @ ("delete" | "revoke" | "reboot" | "decommission") => {
                Some(Words::open(&["device", verb, id]))
            }
            _ => None,
        }
    }

    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        let Some(status) = &self.status else { return Ok(()) };
        let all = [
            ("Summary", &status.summary),
            ("Updated", &status.updated),
            ("Applications", &status.application_summary),
            ("Lifecycle", &status.lifecycle),
        ];
        for (name, of) in all {
            output::line(&format!("{name}: {}. {}", of.status, of.info))?;
        }
        output::line("\nSpec:")?;
        output::yaml(&self.spec)
    }
}

fn state(device: &Device) -> String {
    let state = of(device, |status| &status.summary);
    if device.is_deleted() { format!("deleted (was {state})") } else { state }
}

fn of(device: &Device, status: fn(&wardroom_api::device::DeviceStatus) -> &StatusOf) -> String {
    or_none(device.status.as_ref().map(|shown| &*status(shown).status))
}

fn seen(device: &Device) -> Option<jiff::Timestamp> {
    device.status.as_ref().and_then(|status| status.last_seen)
}

fn certificate(device: &Device) -> String {
    let Some(status) = &device.status else { return or_none(None) };
    let until = status.certificate_expires_at.map(|until| format!("until {}", time(until)));
    if status.revoked { "revoked".to_owned() } else { or_none(until.as_deref()) }
}
