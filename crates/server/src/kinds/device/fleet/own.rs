//! Which fleet owns which device: what its labels say, and the owner it has where several fleets select it.

use std::collections::BTreeMap;

use serde_json::json;
use wardroom_core::device::fleet::selector::{self, Must, Selector};
use wardroom_store::{Change, Fence, List, Requirement, Resource, Selector as Filter};

use super::{
    super::{
        call,
        document::{CONTESTED, Document, Heard, KIND, OWNER},
        settings::Settings,
    },
    member::{Membership, owner},
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// A fleet, as far as devices are told apart by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) selector: Selector,
    pub(super) version: u64,
    /// How long its devices may be silent.
    pub(super) silence_seconds: u32,
}

/// All living fleets, by their names.
pub(super) type Fleets = BTreeMap<String, Known>;

/// How long the devices of a fleet may be silent, or those of none.
pub(super) fn silence(app: &App, given: Option<u32>) -> u32 {
    let settings = Settings::of(&app.config);
    let seconds = |length: std::time::Duration| u32::try_from(length.as_secs()).unwrap_or(u32::MAX);
    given.map_or(seconds(settings.silence), |given| given.max(seconds(settings.interval * 3)))
}

/// How many devices are looked at together.
pub(super) const PAGE: usize = 500;

/// Settles who owns the devices of a list; returns the fleets that lost or gained one.
pub(super) async fn settle_all(
    app: &App,
    fleets: &Fleets,
    mut list: List,
    fence: Option<&Fence>,
) -> Result<Vec<String>, Error> {
    (list.kind, list.limit) = (KIND.to_owned(), PAGE);
    let mut touched = Vec::new();
    loop {
        let page = app.store.list(&list).await?;
        touched.extend(settle(app, fleets, &page.items, fence).await?);
        touched.sort();
        touched.dedup();
        list.after = page.next;
        if list.after.is_none() {
            return Ok(touched);
        }
    }
}

/// Settles who owns some devices; returns the fleets that have one of them, and those that had one before.
pub(super) async fn settle(
    app: &App,
    fleets: &Fleets,
    devices: &[Resource],
    fence: Option<&Fence>,
) -> Result<Vec<String>, Error> {
    let (mut touched, mut changes) = (Vec::new(), Vec::new());
    for device in devices {
        let document = Document::of(device)?;
        touched.extend(document.fleet.as_ref().map(|fleet| fleet.fleet.clone()));
        if device.content.deleted {
            continue;
        }
        let change = settled(app, fleets, device, document)?;
        if let Some((change, after)) = change {
            touched.extend(after);
            changes.push(Change { fence: fence.cloned(), ..change });
        }
    }
    for committed in app.commit_all(changes).await {
        match committed {
            // It changed meanwhile, and is looked at again for that.
            Ok(_) | Err(wardroom_store::Error::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(touched)
}

/// The change that makes the owner of a device right, and that owner; nothing if it is right.
fn settled(
    app: &App,
    fleets: &Fleets,
    device: &Resource,
    mut document: Document,
) -> Result<Option<(Change, Option<String>)>, Error> {
    // A device that is taken out of service belongs to no fleet.
    let in_service = document.decommissioning.is_none();
    let selects = |known: &Known| in_service && known.selector.selects(&device.content.labels);
    let claimants: Vec<_> =
        fleets.iter().filter(|(_, known)| selects(known)).map(|(name, _)| name.as_str()).collect();
    let before = document.fleet.take();
    let current = before.as_ref().map(|fleet| &*fleet.fleet);
    let after = selector::owner(current, &claimants);
    let several = if claimants.len() > 1 { claimants.as_slice() } else { &[] };
    if after == current && several == document.claimed_by {
        return Ok(None);
    }
    document.claimed_by = several.iter().map(|&name| name.to_owned()).collect();
    if after == current {
        document.fleet = before.clone();
    } else {
        let known = after.and_then(|name| Some((name, fleets.get(name)?)));
        document.silence_seconds =
            known.map_or_else(|| silence(app, None), |(_, known)| known.silence_seconds);
        document.fleet =
            known.map(|(name, known)| Membership { fleet: name.to_owned(), wants: known.version });
    }
    let metadata = json!({
        "owner": {"from": current.map(owner), "to": after.map(owner)}, "claimedBy": document.claimed_by,
    });
    let labels = device.content.labels.clone();
    let content = document.into_content_of(device, labels, Heard::of(device), app.now())?;
    let entry = call::described(by_system(app, "owner", metadata), device, &content);
    let (before, effects, holds) = (Some(device.clone()), Vec::new(), Vec::new());
    let change = Change { before, after: content, entry, effects, fence: None, holds };
    Ok(Some((change, after.map(str::to_owned))))
}

/// The devices that a selector finds, those that a fleet owns, and those that several fleets select.
pub(super) fn lists(name: &str, selector: Option<&Selector>) -> Vec<List> {
    let field = |field: &str, value: String| List {
        fields: BTreeMap::from([(field.to_owned(), value)]),
        ..List::default()
    };
    let selected = selector
        .filter(|selector| !selector.0.is_empty())
        .map(|selector| List { labels: selector.0.iter().map(filter).collect(), ..List::default() });
    let others = [field(OWNER, owner(name)), field(CONTESTED, "true".to_owned())];
    selected.into_iter().chain(others).collect()
}

fn filter(requirement: &selector::Requirement) -> Filter {
    let must = match &requirement.must {
        Must::BeIn(values) => Requirement::In(values.clone()),
        Must::NotBeIn(values) => Requirement::NotIn(values.clone()),
        Must::Exist => Requirement::Exists,
        Must::NotExist => Requirement::Missing,
    };
    Filter { key: requirement.key.clone(), requirement: must }
}
