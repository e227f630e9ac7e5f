//! Times out installations: one that is silent past its patience counts as a failed attempt.
//!
//! A job checks this, not the next boot. Time in which this server did not listen does not count.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use wardroom_core::node::{
    State, TABLE,
    report::{Facts, Outcome, judge_silence},
};
use wardroom_store::{List, Resource, TRANSITION};

use crate::kinds::node::settings::Settings;
use crate::{
    kinds::node::{
        document::{self, Document, KIND},
        progress::{self, Seen},
    },
    platform::{
        app::{App, Decided, by_system},
        http::error::Error,
    },
};

/// Counts an attempt for every installation that has been silent for too long.
pub(crate) async fn time_out(app: &App) -> Result<(), Error> {
    let state = Some(State::Installing.to_string());
    let mut list = List { kind: KIND.to_owned(), state, limit: 500, ..List::default() };
    loop {
        let page = app.store.list(&list).await?;
        let seen = progress::of_all(app, &page.items).await?;
        for node in &page.items {
            // One unreadable node must not hide the others.
            match is_silent(app, node, seen.get(&node.content.id)) {
                Ok(true) => time_out_one(app, node).await?,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(id = node.content.id, %error, "installation not checked for a time-out; the next run of the job tries again")
                }
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Since when an installation is silent.
pub(crate) fn heard(app: &App, node: &Resource, seen: Option<&Seen>) -> Result<Timestamp, Error> {
    let reported = Document::of(node)?.last_install_report.unwrap_or(node.state_changed_at);
    let seen = seen.map_or(reported, |seen| seen.at);
    Ok(reported.max(seen).max(node.state_changed_at).max(app.listening_since()))
}

fn is_silent(app: &App, node: &Resource, seen: Option<&Seen>) -> Result<bool, Error> {
    Ok(patience(app) < app.now().duration_since(heard(app, node, seen)?))
}

/// How often repeated reports of an installation are recorded; often enough that an installation that reports
/// never times out.
pub(crate) fn noted_every(app: &App) -> SignedDuration {
    const ALIVE: SignedDuration = SignedDuration::from_mins(1);
    patience(app).checked_div(10).unwrap_or(ALIVE).min(ALIVE)
}

/// How long an installation may be silent.
pub(crate) fn patience(app: &App) -> SignedDuration {
    SignedDuration::try_from(Settings::of(&app.config).install_patience).unwrap_or(SignedDuration::MAX)
}

async fn time_out_one(app: &App, node: &Resource) -> Result<(), Error> {
    let id = &node.content.id;
    let seen = progress::of(app, node).await?;
    let decided = app.change(KIND, id, |node| {
        let mut document = Document::of(node)?;
        let state = document::state(node)?;
        // The node may have reported since the list was read, or another server may have been faster.
        if state != State::Installing || !is_silent(app, node, seen.as_ref())? {
            return Ok(Decided::Nothing(()));
        }
        let facts = Facts { state, attempts: document.install_attempts, counted_attempts: &[] };
        let (to, attempts, entry_type) = match judge_silence(facts) {
            Outcome::Attempt { attempts } => (state, attempts, "attempt"),
            Outcome::Move { event, attempts } => {
                (TABLE.find(state, event).ok_or(Error::Internal)?.to, attempts, TRANSITION)
            }
            Outcome::Progress | Outcome::Ignored(_) => return Ok(Decided::Nothing(())),
        };
        let error = format!("no report for {} min", patience(app).as_mins());
        document.install_attempts = attempts;
        document.install_progress = seen.and_then(|seen| seen.percent).or(document.install_progress);
        document.last_install_error = Some(error.clone());
        document.last_install_report = Some(app.now());
        let content = document.content_of(node, to.as_str(), node.content.labels.clone())?;
        let entry = by_system(app, entry_type, json!({"attempt": attempts, "error": error}));
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    });
    match decided.await {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
