//! Silence: when each adapter was last heard about a resource, and what its silence says of the resource.
//!
//! A valid report, also a discarded one, is a beat of its resource and adapter. A stored report is known by its commit as
//! well, so that a crash loses at most the beats of discarded ones. Silence is judged when a resource is read, by the record of
//! when this server listened; nothing is stored of it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use wardroom_core::cluster::{self, Condition, Heard, Silent, last_word};
use wardroom_store::Resource;

use super::KIND;
use crate::{
    kinds::cluster::{
        CLUSTER, NODE_POOL, Sort,
        commit::desired,
        document::Document,
        facts::{Facts, Said, said_by},
        settings::Settings,
    },
    platform::{
        app::App,
        http::error::Error,
        liveness::{kinds::Beating, view},
    },
};

/// When adapters were heard.
pub(in crate::kinds::cluster) static HEARD: Beating = Beating::heard_only(KIND);

/// The member that an adapter is for one resource.
pub(super) fn pair(id: &str, adapter: &str) -> String {
    format!("{id}/{adapter}")
}

/// The member that an adapter is for all of its resources.
pub(super) fn anywhere(adapter: &str) -> String {
    pair("", adapter)
}

/// When an adapter was last heard about a resource, or about any with the id of none; the same each time it is asked.
pub(super) fn beat(app: &App, id: &str, adapter: &str) -> Option<Timestamp> {
    let seen = app.liveness.last_seen(KIND, &pair(id, adapter))?;
    Timestamp::from_millisecond(seen.as_millisecond()).ok()
}

/// Notes that an adapter was heard about a resource by a valid report.
pub(in crate::kinds::cluster) fn heard(app: &App, sort: &Sort, id: &str, adapter: &str) {
    // Others are not waited for, and a caller could think of any number of names.
    if Settings::of(&app.config).required(sort).iter().any(|required| required == adapter) {
        app.liveness.hear(KIND, &pair(id, adapter), None);
        app.liveness.hear(KIND, &anywhere(adapter), None);
    }
}

/// Forgets when the adapters of a removed resource were heard. Rows that stay behind cost their space only.
pub(in crate::kinds::cluster) async fn forget(app: &App, kind: &str, id: &str) {
    let sort = if kind == CLUSTER.kind { &CLUSTER } else { &NODE_POOL };
    for adapter in Settings::of(&app.config).required(sort) {
        let pair = pair(id, adapter);
        app.liveness.forget(KIND, &pair);
        if let Err(error) = app.store.forget_seen(KIND, &pair).await {
            tracing::warn!(%error, id, adapter, "the beats of an adapter about a removed resource were not forgotten");
        }
    }
}

/// A resource as far as silence is about it.
pub(super) struct Judged<'a> {
    pub(super) sort: &'static Sort,
    pub(super) id: &'a str,
    pub(super) document: &'a Document,
}

impl Judged<'_> {
    /// The adapters that are silent about it, with what each said last.
    pub(super) fn silent<'a>(&self, app: &App, said: &[(&'a str, Option<&'a Said>)]) -> Vec<Silent<'a>> {
        let required = Settings::of(&app.config).required(self.sort);
        let heard: Vec<_> = said.iter().map(|(adapter, said)| self.heard(app, adapter, *said)).collect();
        cluster::silent(&desired(self.document, required, false), &heard, app.now()).collect()
    }

    fn heard<'a>(&self, app: &App, adapter: &'a str, said: Option<&'a Said>) -> Heard<'a> {
        let settings = Settings::of(&app.config);
        let patience = SignedDuration::try_from(settings.patience).unwrap_or(SignedDuration::MAX);
        let stored = said.map(|said| said.received_at);
        // The beat of a stored report is that of its commit, told by another clock: what is shown must not flicker.
        let beat = beat(app, self.id, adapter).filter(|beat| {
            stored.is_none_or(|stored| beat.duration_since(stored) > SignedDuration::from_secs(1))
        });
        let received_at = beat.or(stored);
        let status = said.map(|said| &said.status);
        let last =
            last_word(&desired(self.document, settings.required(self.sort), false), status, received_at);
        let excused = app.liveness.excused(app, last, patience);
        Heard { adapter, status, received_at, patience, excused }
    }
}

impl Facts {
    /// The same with the silence of adapters laid over its conditions: as it is shown.
    pub(in crate::kinds::cluster) async fn with_silence(mut self, app: &App) -> Result<Self, Error> {
        let required = Settings::of(&app.config).required(self.sort);
        let pairs: Vec<_> = required.iter().map(|adapter| pair(self.id(), adapter)).collect();
        view::refresh_ids(app, KIND, &pairs).await?;
        let judged = Judged { sort: self.sort, id: self.id(), document: &self.document };
        let heard: Vec<_> =
            required.iter().map(|adapter| judged.heard(app, adapter, self.said(adapter))).collect();
        let mut conditions = self.conditions.clone();
        cluster::overlay(&desired(&self.document, required, false), &heard, app.now(), &mut conditions);
        self.conditions = conditions;
        Ok(self)
    }

    /// The adapters that are silent about it.
    pub(in crate::kinds::cluster) fn silent<'a>(&'a self, app: &'a App) -> Vec<Silent<'a>> {
        let required = Settings::of(&app.config).required(self.sort);
        let said: Vec<_> = required.iter().map(|adapter| (adapter.as_str(), self.said(adapter))).collect();
        Judged { sort: self.sort, id: self.id(), document: &self.document }.silent(app, &said)
    }
}

/// Lays silence over the conditions of a resource.
pub(in crate::kinds::cluster) async fn overlay(
    app: &App,
    sort: &'static Sort,
    found: &Resource,
    conditions: &mut Vec<Condition>,
) -> Result<(), Error> {
    let id = &found.content.id;
    let mut page = HashMap::from([(id.clone(), std::mem::take(conditions))]);
    overlay_page(app, sort, std::slice::from_ref(found), &mut page).await?;
    *conditions = page.remove(id).unwrap_or_default();
    Ok(())
}

/// The same of a page. What adapters said is read only of resources about which one of them was not heard for longer than
/// its patience.
pub(in crate::kinds::cluster) async fn overlay_page(
    app: &App,
    sort: &'static Sort,
    found: &[Resource],
    conditions: &mut HashMap<String, Vec<Condition>>,
) -> Result<(), Error> {
    let required = Settings::of(&app.config).required(sort);
    let late: Vec<_> = found.iter().filter(|found| is_late(app, required, found)).collect();
    let pairs = late.iter().flat_map(|found| required.iter().map(|adapter| pair(&found.content.id, adapter)));
    view::refresh_ids(app, KIND, &pairs.collect::<Vec<_>>()).await?;
    // Another replica may have heard them.
    let late: Vec<_> = late.into_iter().filter(|found| is_late(app, required, found)).collect();
    if late.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = late.iter().map(|found| found.content.id.as_str()).collect();
    let mut said: HashMap<String, Vec<Said>> = HashMap::new();
    for adapter in required {
        for (id, one) in said_by(app, sort, adapter, &ids).await? {
            said.entry(id).or_default().push(one);
        }
    }
    for resource in late {
        let id = &resource.content.id;
        let Some(conditions) = conditions.get_mut(id) else { continue };
        let (document, said) = (Document::of(resource)?, said.remove(id).unwrap_or_default());
        let of = |adapter: &str| said.iter().find(|said| said.status.adapter == adapter);
        let judged = Judged { sort, id, document: &document };
        let heard: Vec<_> = required.iter().map(|adapter| judged.heard(app, adapter, of(adapter))).collect();
        cluster::overlay(&desired(&document, required, false), &heard, app.now(), conditions);
    }
    Ok(())
}

/// Whether memory has not heard of a resource from one of its adapters for longer than its patience.
fn is_late(app: &App, required: &[String], found: &Resource) -> bool {
    let patience =
        SignedDuration::try_from(Settings::of(&app.config).patience).unwrap_or(SignedDuration::MAX);
    let is_old = |at: Option<Timestamp>| at.is_none_or(|at| app.now().duration_since(at) > patience);
    let heard = |adapter: &String| beat(app, &found.content.id, adapter);
    is_old(Some(found.created_at)) && required.iter().any(|adapter| is_old(heard(adapter)))
}
