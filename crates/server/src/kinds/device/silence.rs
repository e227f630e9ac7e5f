//! Devices that fell silent become offline, and are back when they were heard.

use serde::Deserialize;
use wardroom_core::{
    device::summary::Status::{Degraded, Error as Failing, Offline, Online, Rebooting},
    liveness::Interval,
};
use wardroom_store::Resource;

use super::{
    document::{Document, Heard, KIND},
    identity::interval_for,
};
use crate::platform::{
    http::error::Error,
    liveness::{
        Settings,
        kinds::Beating,
        stale::{Goal, Target},
        unwatched::Back,
    },
};

/// How devices beat.
pub(super) static BEATING: Beating = Beating {
    kind: KIND,
    states: &[Online.as_str(), Degraded.as_str(), Failing.as_str(), Rebooting.as_str()],
    event: "disconnected",
    given,
    heard: |_, _| Box::pin(async { Ok(None) }),
    ends: &[],
    targets: |app, silent| {
        Box::pin(async move {
            let lost = |device| {
                let to = Goal::Content(Box::new(content(device, Heard::Lost, app.now())?));
                Ok(Some(Target { to, holds: Vec::new() }))
            };
            silent.iter().map(lost).collect()
        })
    },
    marked: &[Offline.as_str()],
    back: |device, now| {
        if Heard::of(device) == Heard::Lately {
            return Ok(None);
        }
        let to = Goal::Content(Box::new(content(device, Heard::Lately, now)?));
        Ok(Some(Back { to, event: "connected" }))
    },
};

fn content(device: &Resource, heard: Heard, now: jiff::Timestamp) -> Result<wardroom_store::Content, Error> {
    let document = Document::of(device)?;
    let labels = device.content.labels.clone();
    document.into_content_of(device, labels, heard, now)
}

/// The interval that makes liveness allow as much silence as the record of the device says.
fn given(device: &Resource, settings: &Settings) -> Option<Interval> {
    #[derive(Deserialize)]
    struct Silence {
        silence_seconds: u32,
    }
    let silence = device.content.document.read::<Silence>().ok()?.silence_seconds;
    interval_for(silence, settings.policy.beats.get())
}
