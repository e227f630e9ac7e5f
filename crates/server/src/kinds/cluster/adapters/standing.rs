//! How an adapter stands: what waits for it, what fails, and what it is silent about.
//!
//! Resources are found by the index of their conditions, so that those that are well cost nothing: one that is not
//! reconciled is looked at, and one about which memory has heard no beat for a patience.

use std::{collections::HashMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::Mutex, time::Instant};
use wardroom_api::adapter::{Adapter, Concern, Concerned};
use wardroom_core::cluster::{AVAILABLE, FINALIZED, RECONCILED, Status, successful_type};
use wardroom_store::{List, Resource, Window};

use super::{
    KIND,
    silence::{Judged, anywhere, beat},
};
use crate::{
    kinds::cluster::{
        CLUSTER, NODE_POOL, Sort,
        document::{CONDITION, Document},
        facts::{Said, said_by},
        settings::Settings,
    },
    platform::{app::App, http::error::Error, kind::Derived, liveness::view},
};

/// How many resources of a kind are looked at.
const MOST: usize = 2000;

/// How long what other replicas heard is believed.
const FRESH: Duration = Duration::from_secs(5);

/// How many are named.
const NAMED: usize = 10;

/// When the beats that other replicas heard were read last: there may be very many.
#[derive(Default)]
pub(in crate::kinds::cluster) struct Refreshed(Mutex<Option<Instant>>);

impl Refreshed {
    async fn now(&self, app: &App) -> Result<(), Error> {
        let mut last = self.0.lock().await;
        if last.is_none_or(|last| last.elapsed() >= FRESH) {
            view::refresh_kind(app, KIND).await?;
            *last = Some(Instant::now());
        }
        Ok(())
    }
}

/// The names of the required adapters, in order.
pub(super) fn names(app: &App) -> Vec<String> {
    let settings = Settings::of(&app.config);
    let mut names: Vec<_> = settings.clusters.iter().chain(&settings.node_pools).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// How some adapters stand.
pub(super) async fn of(app: &App, names: &[String]) -> Result<Vec<Adapter>, Error> {
    app.part::<Refreshed>().now(app).await?;
    let listening = app.tail.rechecks.adapters();
    let mut adapters = Vec::new();
    for name in names {
        let required_for = [&CLUSTER, &NODE_POOL].into_iter().filter(|sort| requires(app, sort, name));
        adapters.push(Adapter {
            name: name.clone(),
            state: String::new(),
            required_for: required_for.map(|sort| sort.kind.to_owned()).collect(),
            last_heard: beat(app, "", name),
            listening: listening.get(name).map_or(0, |count| *count as u64),
            waiting: Concern::default(),
            failing: Concern::default(),
            silent: Concern::default(),
        });
    }
    for sort in [&CLUSTER, &NODE_POOL] {
        if names.iter().any(|name| requires(app, sort, name)) {
            let (open, or_more) = unreconciled(app, sort).await?;
            for adapter in adapters.iter_mut().filter(|adapter| requires(app, sort, &adapter.name)) {
                look(app, sort, (&open, or_more), adapter).await?;
            }
        }
    }
    for adapter in &mut adapters {
        adapter.state = state(adapter).to_owned();
    }
    Ok(adapters)
}

/// Every required adapter with its standing, for what needs a person.
pub(in crate::kinds::cluster) async fn derived(app: &App) -> Result<Vec<Derived>, Error> {
    let adapters = of(app, &names(app)).await?.into_iter();
    let since = |silent: &Concern| silent.examples.iter().filter_map(|one| one.since).min();
    Ok(adapters
        .map(|Adapter { name, state, silent, .. }| Derived { since: since(&silent), name, state })
        .collect())
}

fn requires(app: &App, sort: &Sort, name: &str) -> bool {
    Settings::of(&app.config).required(sort).iter().any(|required| required == name)
}

fn state(adapter: &Adapter) -> &'static str {
    if adapter.silent.count > 0 {
        "silent"
    } else if adapter.failing.count > 0 {
        "failing"
    } else if adapter.waiting.count > 0 {
        "working"
    } else {
        "idle"
    }
}

/// The resources that are not reconciled, the oldest first; true: there are more.
async fn unreconciled(app: &App, sort: &Sort) -> Result<(Vec<Resource>, bool), Error> {
    let fields = [(format!("{CONDITION}{RECONCILED}"), Status::False.to_string())].into();
    let mut list = List { kind: sort.kind.to_owned(), fields, limit: 500, ..List::default() };
    let mut found = Vec::new();
    while found.len() < MOST {
        let page = app.store.list(&list).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok((found, false)),
        }
    }
    Ok((found, true))
}

/// Adds what one adapter has to do with the resources of a sort.
async fn look(
    app: &App,
    sort: &'static Sort,
    (open, or_more): (&[Resource], bool),
    adapter: &mut Adapter,
) -> Result<(), Error> {
    let name = adapter.name.clone();
    let said = said_of(app, sort, &name, open).await?;
    for resource in open {
        let (document, said) = (Document::of(resource)?, said.get(&resource.content.id));
        if is_done(&document, said) {
            continue;
        }
        add(&mut adapter.waiting, resource, said.map(changed), words(&name, said));
        note_silence(app, sort, resource, (&name, said), &mut adapter.silent)?;
    }
    adapter.waiting.or_more |= or_more;
    adapter.silent.or_more |= or_more;
    failing(app, sort, &name, &mut adapter.failing).await?;
    silent(app, sort, &name, open, &mut adapter.silent).await
}

async fn said_of(
    app: &App,
    sort: &Sort,
    name: &str,
    found: &[Resource],
) -> Result<HashMap<String, Said>, Error> {
    let mut said = HashMap::new();
    for found in found.chunks(500) {
        let ids: Vec<_> = found.iter().map(|resource| resource.content.id.as_str()).collect();
        said.extend(said_by(app, sort, name, &ids).await?);
    }
    Ok(said)
}

/// Whether an adapter has nothing more to do at the current generation.
fn is_done(document: &Document, said: Option<&Said>) -> bool {
    let wanted = if document.deleted_time.is_some() { FINALIZED } else { AVAILABLE };
    said.is_some_and(|Said { status, .. }| {
        status.observed_generation == document.generation
            && status.condition(wanted).is_some_and(|condition| condition.status == Status::True)
    })
}

fn changed(said: &Said) -> Timestamp {
    said.received_at
}

/// The last words of an adapter about a resource.
fn words(name: &str, said: Option<&Said>) -> String {
    let Some(Said { status, .. }) = said else { return format!("{name} has not reported yet") };
    let generation = status.observed_generation;
    let Some(available) = status.condition(AVAILABLE) else { return format!("generation {generation}") };
    let reason = available.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let message = available.message.as_deref().map_or_else(String::new, |message| format!(": {message}"));
    format!("{AVAILABLE}={} for generation {generation}{reason}{message}", available.status)
}

fn add(concern: &mut Concern, resource: &Resource, since: Option<Timestamp>, detail: String) {
    concern.count += 1;
    if concern.examples.len() < NAMED {
        let content = &resource.content;
        let (kind, id, name) = (content.kind.clone(), content.id.clone(), content.name.clone());
        concern.examples.push(Concerned { kind, id, name, since, detail });
    }
}

/// What the adapter last said not to be available, by the index.
async fn failing(app: &App, sort: &Sort, name: &str, failing: &mut Concern) -> Result<(), Error> {
    let fields = [(format!("{CONDITION}{}", successful_type(name)), Status::False.to_string())].into();
    let list = List { kind: sort.kind.to_owned(), fields, limit: NAMED, ..List::default() };
    let found = app.store.window(&list, Window { offset: 0, newest_first: false }).await?;
    let said = said_of(app, sort, name, &found.items).await?;
    let before = failing.count;
    for resource in &found.items {
        let said = said.get(&resource.content.id);
        add(failing, resource, said.map(changed), words(name, said));
    }
    failing.count = before + u64::try_from(found.total).unwrap_or_default();
    Ok(())
}

/// Adds the silence of an adapter about a resource, if it is silent.
fn note_silence(
    app: &App,
    sort: &'static Sort,
    resource: &Resource,
    (name, said): (&str, Option<&Said>),
    silent: &mut Concern,
) -> Result<(), Error> {
    let document = Document::of(resource)?;
    let judged = Judged { sort, id: &resource.content.id, document: &document };
    if let Some(found) = judged.silent(app, &[(name, said)]).first() {
        let heard = found.received_at.map_or("never heard".to_owned(), |at| format!("last heard {at}"));
        add(silent, resource, Some(found.since), heard);
    }
    Ok(())
}

/// What is reconciled and the adapter was not heard about for a patience, as memory says.
async fn silent(
    app: &App,
    sort: &'static Sort,
    name: &str,
    open: &[Resource],
    silent: &mut Concern,
) -> Result<(), Error> {
    let patience =
        SignedDuration::try_from(Settings::of(&app.config).patience).unwrap_or(SignedDuration::MAX);
    let before = app.now().checked_sub(patience).unwrap_or(Timestamp::MIN);
    let suffix = anywhere(name);
    let heard = app.liveness.heard_before(KIND, before, &suffix, MOST);
    silent.or_more |= heard.len() >= MOST;
    let ids = heard.iter().filter_map(|pair| pair.strip_suffix(&suffix)).filter(|id| !id.is_empty());
    let known: std::collections::HashSet<_> = open.iter().map(|open| open.content.id.as_str()).collect();
    let ids: Vec<_> = ids.filter(|id| !known.contains(id)).map(str::to_owned).collect();
    for ids in ids.chunks(500) {
        let found = app.store.get_all(sort.kind, ids).await?;
        let found: Vec<_> = found.into_iter().filter(|found| !found.content.deleted).collect();
        let said = said_of(app, sort, name, &found).await?;
        for resource in &found {
            note_silence(app, sort, resource, (name, said.get(&resource.content.id)), silent)?;
        }
    }
    Ok(())
}
