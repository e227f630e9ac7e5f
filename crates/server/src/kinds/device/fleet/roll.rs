//! One step of a rollout: the facts of the fleet's devices, the decision of `core`, and what follows from it.
//!
//! What must stay true: each device is changed on the condition that it and its fleet are as they were when the decision
//! was made; so nothing is given out after a pause, and a device that changed meanwhile is decided about again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;
use wardroom_core::device::fleet::{Decision, Member, Overlap, Policy, Progress, Standing, decide};
use wardroom_store::{
    Change, Document as Text, Error as StoreError, Fence, Held, List, Observation, Resource, TRANSITION,
};

use super::{
    super::{
        call,
        document::{CONTESTED, Document as Device, Heard, KIND as DEVICE, OWNER},
    },
    check,
    document::{self, Document, KIND},
    member::{Given, Membership, owner},
    own::{PAGE, silence},
    view::{SOURCE, progress},
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// What is to be done after a step.
#[derive(Debug, Default)]
pub(super) struct Stepped {
    /// Whether something changed meanwhile, so that the next step must not wait for news.
    pub(super) again: bool,
    /// When the next device takes too long.
    pub(super) next: Option<Timestamp>,
}

/// A device of the fleet as it was read.
struct Seen {
    name: String,
    version: i64,
    /// Those labels that the policy asks for.
    labels: BTreeMap<String, String>,
    standing: Standing,
    is_heard: bool,
    is_busy: bool,
    has_spec: bool,
    said: Option<String>,
    /// Whether it has to note what its fleet is at.
    is_behind: bool,
}

/// What of a fleet the facts about its devices depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
    version: u64,
    body: u64,
    silence_seconds: u32,
    /// The labels that the policy asks for.
    keys: BTreeSet<String>,
}

/// The devices of a fleet, by their names: read once, and noted again when they change.
pub(super) struct Members {
    basis: Basis,
    seen: BTreeMap<String, Seen>,
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    /// Notes a device as it is now, if it belongs to the fleet, and forgets it otherwise.
    pub(super) fn note(&mut self, fleet: &str, device: &Resource) -> Result<(), Error> {
        let id = &device.content.id;
        let owner_is = device.content.fields.get(OWNER).is_some_and(|known| *known == owner(fleet));
        if device.content.deleted || !owner_is {
            self.seen.remove(id);
            return Ok(());
        }
        self.seen.insert(id.clone(), self.basis.seen(fleet, device)?);
        Ok(())
    }
}

/// A fleet as it was read.
struct Fleet {
    resource: Resource,
    document: Document,
    policy: Policy,
    silence_seconds: u32,
    fence: Option<Fence>,
}

/// Takes the rollout of a fleet one step further. `known` are its devices, if they were read before; they are returned.
pub(super) async fn step(
    app: &App,
    name: &str,
    known: Option<Members>,
    fence: Option<Fence>,
) -> Result<(Stepped, Option<Members>), Error> {
    let found = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    let Some(resource) = found else { return Ok((Stepped::default(), None)) };
    let document = Document::of(&resource)?;
    let checked = check::read(&document.spec)?;
    let silence_seconds = silence(app, checked.silence_seconds);
    let mut fleet = Fleet { resource, document, policy: checked.policy, silence_seconds, fence };
    let mut members = match known.filter(|known| known.basis == fleet.basis()) {
        Some(known) => known,
        None => fleet.members(app).await?,
    };
    let stepped = fleet.step(app, &mut members).await?;
    Ok((stepped, Some(members)))
}

impl Fleet {
    async fn step(&mut self, app: &App, members: &mut Members) -> Result<Stepped, Error> {
        let mut changed = Vec::new();
        let stepped = self.go(app, members, &mut changed).await?;
        // The feed may tell of it later, and the next decision must count it.
        members.seen.extend(changed.into_iter().map(|seen| (seen.name.clone(), seen)));
        Ok(stepped)
    }

    /// Decides, and does what was decided; `changed` are the devices that were changed, as they are then.
    async fn go(&mut self, app: &App, members: &Members, changed: &mut Vec<Seen>) -> Result<Stepped, Error> {
        let seen: Vec<_> = members.seen.values().collect();
        let decision = {
            let members: Vec<_> = seen.iter().map(|seen| seen.member()).collect();
            decide(&self.policy, self.document.course(), &members, app.now())
        };
        let mut stepped = Stepped { again: false, next: decision.next };
        let gives: BTreeSet<usize> = decision.gives.iter().copied().collect();
        // What a state follows from is there before the state; what was given out is counted afterwards.
        if gives.is_empty() {
            self.note(app, &decision).await?;
        }
        if !self.commit(app, &decision).await? {
            return Ok(Stepped { again: true, ..stepped });
        }
        let behind = seen.iter().enumerate().filter(|(at, seen)| seen.is_behind && !gives.contains(at));
        let behind: Vec<_> = behind.map(|(at, _)| at).collect();
        for (places, batch) in [(&decision.gives, Some(decision.batch)), (&behind, None)] {
            for page in places.chunks(PAGE) {
                let page: Vec<_> = page.iter().map(|at| seen[*at]).collect();
                if !self.change(app, &members.basis, &page, batch, changed).await? {
                    stepped.again = true;
                    return Ok(stepped);
                }
            }
        }
        if !gives.is_empty() {
            self.note(app, &decision).await?;
        }
        Ok(stepped)
    }

    fn id(&self) -> &str {
        &self.resource.content.id
    }

    /// Reads the devices of the fleet, as far as the decision needs them.
    async fn members(&self, app: &App) -> Result<Members, Error> {
        let mut members = Members { basis: self.basis(), seen: BTreeMap::new() };
        let mut list = List {
            kind: DEVICE.to_owned(),
            fields: BTreeMap::from([(OWNER.to_owned(), owner(self.id()))]),
            limit: PAGE,
            ..List::default()
        };
        loop {
            let page = app.store.list(&list).await?;
            for device in &page.items {
                members.seen.insert(device.content.id.clone(), members.basis.seen(self.id(), device)?);
            }
            list.after = page.next;
            if list.after.is_none() {
                return Ok(members);
            }
        }
    }

    fn basis(&self) -> Basis {
        Basis {
            version: self.document.version,
            body: self.document.body,
            silence_seconds: self.silence_seconds,
            keys: keys(&self.policy).into_iter().map(str::to_owned).collect(),
        }
    }

    /// Keeps the progress for people, before they see the state that follows from it.
    async fn note(&self, app: &App, decision: &Decision) -> Result<(), Error> {
        let (name, batches) = (self.id(), self.policy.batches.len() + 1);
        let overlap = self.overlap(app).await?;
        let new = Progress::of(decision, self.document.version, batches, overlap);
        if progress(app, name).await?.as_ref() == Some(&new) {
            return Ok(());
        }
        let version = app.store.observation(KIND, name, SOURCE).await?.map_or(1, |known| known.version + 1);
        let now = app.now();
        let seen = Observation {
            kind: KIND.to_owned(),
            resource_id: name.to_owned(),
            source: SOURCE.to_owned(),
            version,
            document: Text::of(&new)?,
            observed_at: now,
            received_at: now,
        };
        // Another server that was faster has seen as much.
        app.store.observe(&seen).await?;
        Ok(())
    }

    /// The devices that other fleets select too.
    async fn overlap(&self, app: &App) -> Result<Option<Overlap>, Error> {
        let list = List {
            kind: DEVICE.to_owned(),
            fields: BTreeMap::from([(CONTESTED.to_owned(), "true".to_owned())]),
            limit: PAGE,
            ..List::default()
        };
        let (mut overlap, mut fleets) = (Overlap::default(), BTreeSet::new());
        for device in app.store.list(&list).await?.items {
            let claimants = Device::of(&device)?.claimed_by;
            if !claimants.iter().any(|claimant| claimant == self.id()) {
                continue;
            }
            overlap.devices += 1;
            if overlap.named.len() < NAMED {
                overlap.named.push(device.content.id);
            }
            fleets.extend(claimants.into_iter().filter(|claimant| claimant != self.id()));
        }
        overlap.fleets = fleets.into_iter().collect();
        Ok((overlap.devices > 0).then_some(overlap))
    }

    /// Commits the state and the batch, if they are new; false if the fleet changed meanwhile.
    async fn commit(&mut self, app: &App, decision: &Decision) -> Result<bool, Error> {
        let advances = decision.batch != self.document.batch && self.document.restores.is_none();
        let moves = decision.state != document::state(&self.resource);
        if !advances && !moves {
            return Ok(true);
        }
        let (before, mut document) = (self.resource.clone(), self.document.clone());
        if advances {
            (document.batch, document.accepted) = (decision.batch, 0);
        }
        let after = document.content(self.id(), before.content.labels.clone(), decision.state)?;
        let metadata = json!({
            "templateVersion": document.version.to_string(), "batch": decision.batch + 1, "devices": decision.counts,
            "failures": decision.failures,
        });
        let entry = by_system(app, if moves { TRANSITION } else { "batch" }, metadata);
        let (fence, effects, holds) = (self.fence.clone(), Vec::new(), Vec::new());
        match app.commit(Change { before: Some(before), after, entry, effects, fence, holds }).await {
            Ok(resource) => {
                (self.resource, self.document) = (resource, document);
                Ok(true)
            }
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives devices the template in a batch, or lets them note what their fleet is at; false if something changed meanwhile.
    async fn change(
        &self,
        app: &App,
        basis: &Basis,
        page: &[&Seen],
        batch: Option<usize>,
        changed: &mut Vec<Seen>,
    ) -> Result<bool, Error> {
        let names: Vec<_> = page.iter().map(|seen| seen.name.clone()).collect();
        let devices = app.store.get_all(DEVICE, &names).await?;
        let versions: BTreeMap<_, _> = page.iter().map(|seen| (&*seen.name, seen.version)).collect();
        let (mut changes, mut unchanged) = (Vec::new(), devices.len() == page.len());
        for device in devices {
            if versions.get(&*device.content.id) != Some(&device.version) {
                unchanged = false;
                continue;
            }
            changes.push(self.changed(app, device, batch)?);
        }
        for committed in app.commit_all(changes).await {
            match committed {
                Ok(device) => changed.push(basis.seen(self.id(), &device)?),
                Err(StoreError::Conflict) => unchanged = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(unchanged)
    }

    fn changed(&self, app: &App, device: Resource, batch: Option<usize>) -> Result<Change, Error> {
        let mut document = Device::of(&device)?;
        let (fleet, version) = (self.id().to_owned(), self.document.version);
        document.fleet = Some(Membership { fleet: fleet.clone(), wants: version });
        document.silence_seconds = self.silence_seconds;
        let mut metadata = json!({"fleet": fleet, "templateVersion": version.to_string()});
        if let Some(batch) = batch {
            let (body, at) = (self.document.body, app.now());
            document.give(Given { fleet, version, body, batch, at, failed_before: None });
            metadata["batch"] = json!(batch + 1);
            metadata["renderedVersion"] = json!(document.rendered_version.to_string());
        }
        let entry_type = if batch.is_some() { "rollout" } else { "fleet" };
        let labels = device.content.labels.clone();
        let after = document.into_content_of(&device, labels, Heard::of(&device), app.now())?;
        let entry = call::described(by_system(app, entry_type, metadata), &device, &after);
        let (effects, holds) = (Vec::new(), vec![Held::at(&self.resource)]);
        Ok(Change { before: Some(device), after, entry, effects, fence: self.fence.clone(), holds })
    }
}

/// How many devices are named.
const NAMED: usize = 5;

impl Basis {
    fn seen(&self, fleet: &str, device: &Resource) -> Result<Seen, Error> {
        let document = Device::of(device)?;
        let labels = device.content.labels.iter().filter(|(key, _)| self.keys.contains(*key));
        let wants = document.fleet.as_ref().map(|fleet| fleet.wants);
        Ok(Seen {
            name: device.content.id.clone(),
            version: device.version,
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            standing: document.standing(self.version),
            is_heard: Heard::of(device) == Heard::Lately,
            is_busy: document.is_busy(),
            has_spec: document.has_body(fleet, self.body),
            said: document.failure_now().map(|failure| failure.message.clone()),
            is_behind: wants != Some(self.version) || document.silence_seconds != self.silence_seconds,
        })
    }
}

/// The labels that a policy asks for.
fn keys(policy: &Policy) -> BTreeSet<&str> {
    let selectors = policy.batches.iter().filter_map(|batch| batch.selector.as_ref());
    let grouped = policy.budget.iter().flat_map(|budget| budget.group_by.iter().map(String::as_str));
    let selected =
        selectors.flat_map(|selector| selector.0.iter().map(|requirement| requirement.key.as_str()));
    selected.chain(grouped).collect()
}

impl Seen {
    fn member(&self) -> Member<'_> {
        Member {
            name: &self.name,
            labels: &self.labels,
            standing: self.standing,
            is_heard: self.is_heard,
            is_busy: self.is_busy,
            has_spec: self.has_spec,
            said: self.said.as_deref(),
        }
    }
}
