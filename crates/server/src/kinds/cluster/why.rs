//! Why a cluster or node pool is, or is not, reconciled: which adapter it waits for, and the adapter's last words.

use wardroom_core::{
    cluster::{self, AVAILABLE, AdapterStatus, FINALIZED, FORCE_DELETE, Silent, Status},
    table::Owner,
    why::{Blocker, Exit, Why},
};

use super::{CLUSTER, Place, Sort, facts::Facts, pools_of, settings::Settings};
use crate::platform::{app::App, http::error::Error};

/// Explains a cluster, by its id or name.
pub(super) async fn cluster(app: &App, called: &str) -> Result<Vec<Why>, Error> {
    let facts = Place::Cluster(called).read(app).await?.with_silence(app).await?;
    let mut why = explained(app, &facts);
    if facts.is_being_deleted() {
        let count = pools_of(app, facts.id()).await?.len();
        for one in &mut why {
            one.exits.push(by_force(&facts));
            let what = match count {
                0 => continue,
                1 => "it still owns a node pool, which is removed first".to_owned(),
                _ => format!("it still owns {count} node pools, which are removed first"),
            };
            one.blockers.push(Blocker { what: what.into(), fix: None });
        }
    }
    Ok(why)
}

/// Explains a node pool, by its id, or by the names of its cluster and its own: `east/workers`.
pub(super) async fn node_pool(app: &App, sort: &'static Sort, called: &str) -> Result<Vec<Why>, Error> {
    let facts = match called.split_once('/') {
        Some((cluster, pool)) => Place::Pool(cluster, pool).read(app).await?,
        None => Facts::read(app, sort, called).await?.ok_or_else(|| Error::not_found(sort.kind, called))?,
    };
    Ok(explained(app, &facts.with_silence(app).await?))
}

fn explained(app: &App, facts: &Facts) -> Vec<Why> {
    let required = Settings::of(&app.config).required(facts.sort);
    let mut why: Vec<_> = cluster::why(facts.id(), &facts.conditions).into_iter().collect();
    for one in &mut why {
        one.blockers.extend(required.iter().filter_map(|adapter| blocker(facts, adapter)));
        one.blockers.extend(facts.silent(app).iter().map(silence));
    }
    why
}

/// The silence of an adapter, and what to look at.
fn silence(silent: &Silent<'_>) -> Blocker {
    let heard = silent.received_at.map_or("never heard".to_owned(), |at| format!("last heard {at}"));
    let (adapter, since) = (silent.adapter, silent.since);
    let what = format!(
        "{adapter} is silent: {heard}, its patience ran out {since}; look whether it runs, reaches the server and has a valid token"
    );
    Blocker { what: what.into(), fix: None }
}

fn by_force(facts: &Facts) -> Exit {
    Exit {
        on: None,
        to: "deleted",
        when: "An operator removes it without waiting for its adapters; what they made stays.".into(),
        by: Owner::Admin,
        call: (*facts.sort == CLUSTER).then(|| FORCE_DELETE.of(facts.id())),
    }
}

/// What an adapter keeps it waiting with.
fn blocker(facts: &Facts, adapter: &str) -> Option<Blocker> {
    let generation = facts.document.generation;
    let said = facts.said(adapter);
    let what = match said.map(|said| &said.status) {
        None => format!("{adapter} has not reported yet; generation {generation} waits for it"),
        Some(status) => {
            let wanted = if facts.is_being_deleted() { FINALIZED } else { AVAILABLE };
            let is_done = status.observed_generation == generation
                && status.condition(wanted).is_some_and(|condition| condition.status == Status::True);
            if is_done {
                return None;
            }
            last_words(adapter, status, wanted)
        }
    };
    Some(Blocker { what: what.into(), fix: None })
}

fn last_words(adapter: &str, status: &AdapterStatus, wanted: &str) -> String {
    let AdapterStatus { observed_generation, last_report_time, .. } = status;
    let Some(condition) = status.condition(wanted) else {
        return format!(
            "{adapter} reported generation {observed_generation} at {last_report_time}, without {wanted}"
        );
    };
    let reason = condition.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let message = condition.message.as_deref().map_or_else(String::new, |message| format!(": {message}"));
    format!(
        "{adapter} reported {wanted}={} for generation {observed_generation} at {last_report_time}, so since {}{reason}{message}",
        condition.status, condition.last_transition_time
    )
}
