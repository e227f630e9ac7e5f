//! Enrolment: a token that works once becomes the credential of an agent.
//!
//! The credential is derived, so a lost answer can be repeated: to an agent with the same token and the same
//! name of the exchange, within a configured time.

use axum::{Extension, Json, extract::State as Shared, response::Response};
use jiff::Timestamp;
use wardroom_api::gpu_node::agent::{Enroll, Enrolled};
use wardroom_core::{gpu_node::Event, liveness::Interval};
use wardroom_store::{Entry, Resource, TRANSITION};

use super::{
    document::{self, Agent, Document, Enrollment, KIND},
    secret,
};
use crate::kinds::gpu_node::identity::Agents;
use crate::kinds::gpu_node::settings::Settings;
use crate::platform::{
    app::{App, Decided},
    http::{body::Reported, error::Error, problems::Problems, text},
    identity::{auth::Caller, secret::Key},
};

/// Exchanges a bootstrap token for the credential of an agent.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/enroll", request_body = Enroll,
    responses((status = 200, body = Enrolled), Problems)
)]
pub(crate) async fn enroll(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    report: Reported<Enroll>,
) -> Result<Response, Error> {
    let Reported { value: mut enroll, ignored } = report;
    for said in [&mut enroll.hostname, &mut enroll.serial_number, &mut enroll.model].into_iter().flatten() {
        text::scrub(said, 255);
    }
    text::check_some("exchange", enroll.exchange.as_deref(), 255)?;
    let hash = secret::hash(&enroll.token);
    let exchanged = try_exchange(&app, &enroll, &hash).await;
    if let Err(Error::Unauthenticated(_)) = &exchanged {
        // Only failures count, so that guesses do not block enrolments from the same address.
        app.limiter.check_guess(caller.address, &enroll.token)?;
    }
    let Exchanged { id, epoch, replaces } = exchanged?;
    if replaces {
        // From the answer on, no server accepts the previous credential.
        Agents::of(&app).settle().await;
    }
    let credential = secret::credential(&app.key, &id, epoch);
    let interval = app.config.liveness.interval;
    let mut response =
        super::shown(Json(Enrolled { node: id, credential, interval: spoken(interval) }), true);
    ignored.warn(&mut response);
    Ok(response)
}

struct Exchanged {
    id: String,
    epoch: u64,
    replaces: bool,
}

async fn try_exchange(app: &App, enroll: &Enroll, hash: &str) -> Result<Exchanged, Error> {
    let found = app.store.get_by_key(KIND, &document::token_key(hash)).await?.ok_or(UNKNOWN)?;
    let (id, replaces) = (found.content.id.clone(), Document::of(&found)?.agent.is_some());
    let (_, epoch) = app.change(KIND, &id, |node| exchange(app, node, enroll, hash)).await?;
    Ok(Exchanged { id, epoch, replaces })
}

/// Formats an interval for agents.
pub(crate) fn spoken(interval: Interval) -> String {
    interval.to_string()
}

const UNKNOWN: Error =
    Error::Unauthenticated("the token is not valid: it is unknown, was used, or a newer one was issued");

fn exchange(app: &App, node: &Resource, enroll: &Enroll, hash: &str) -> Result<Decided<u64>, Error> {
    let now = app.now();
    let mut document = Document::of(node)?;
    let named = enroll.exchange.as_deref().map(secret::hash);
    if let Some(agent) = &document.agent
        && let Some((token, name)) = &agent.exchange
        && token == hash
    {
        let since = now.duration_since(agent.enrolled_at).unsigned_abs();
        let repeats = named.as_ref() == Some(name) && since <= Settings::of(&app.config).exchange;
        return if repeats { Ok(Decided::Nothing(agent.epoch)) } else { Err(UNKNOWN) };
    }
    let enrollment = document.enrollment.take().filter(|enrollment| {
        crate::platform::identity::secret::same(enrollment.hash.as_bytes(), hash.as_bytes())
    });
    let Enrollment { expires_at, run, .. } = enrollment.ok_or(UNKNOWN)?;
    if expires_at <= now {
        return Err(Error::Unauthenticated("the token has expired: ask an operator for a new one"));
    }
    document.epoch += 1;
    let epoch = document.epoch;
    let credential = secret::credential(&app.key, &node.content.id, epoch);
    document.agent = Some(Agent {
        epoch,
        hash: secret::hash(&credential),
        enrolled_at: now,
        run,
        exchange: Some((hash.to_owned(), named.unwrap_or_default())),
    });
    document.identity_kept = true;
    document.serial_number = document.serial_number.or_else(|| enroll.serial_number.clone());
    document.model = document.model.or_else(|| enroll.model.clone());
    let state = document::state(node)?;
    let to = super::moved(state, Event::EnrollmentStarted).unwrap_or(state);
    let entry_type = if to == state { "credential" } else { TRANSITION };
    let metadata = serde_json::json!({"enrolled": {"epoch": epoch, "hostname": enroll.hostname}});
    let content = document.into_content_of(node, to)?;
    Ok(Decided::Commit(Box::new((content, by_agent(app, entry_type, metadata))), epoch))
}

/// The purpose and expiry of a token.
pub(crate) struct Issue {
    pub(crate) run: String,
    pub(crate) round: u32,
    pub(crate) expires_at: Timestamp,
}

/// Puts a new token into a node's document, which voids earlier ones.
pub(crate) fn issue(key: &Key, document: &mut Document, node: &str, issue: Issue) -> String {
    let Issue { run, round, expires_at } = issue;
    document.issued = round;
    let token = secret::token(key, node, &run, round);
    document.enrollment = Some(Enrollment { hash: secret::hash(&token), expires_at, run, round });
    token
}

/// Returns the open token of a node and its expiry, for a caller that may see it.
pub(crate) fn issued(app: &App, node: &Resource) -> Result<Option<(String, Timestamp)>, Error> {
    let enrollment = Document::of(node)?.enrollment;
    Ok(enrollment.map(|Enrollment { run, round, expires_at, .. }| {
        (secret::token(&app.key, &node.content.id, &run, round), expires_at)
    }))
}

/// The expiry of a token that is issued now.
pub(crate) fn expiry(app: &App) -> Timestamp {
    app.now().saturating_add(Settings::of(&app.config).token).unwrap_or(Timestamp::MAX)
}

/// Builds the history entry of an agent's action.
pub(crate) fn by_agent(app: &App, entry_type: &str, metadata: serde_json::Value) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "agent_report".to_owned(),
        user_id: None,
        comment: None,
        metadata,
        request_id: None,
        at: app.now(),
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::gpu_node::State;

    use super::*;

    /// States in which a new agent may turn up: those of a run that waits for one.
    const ENROLS: &[State] = &[State::BootstrapIssued, State::Enrolling, State::Quarantined, State::Retired];

    /// Only a node that was bootstrapped by hand moves when its agent enrols; the others move with their run.
    #[test]
    fn enrolling_moves_only_a_node_that_waits_by_hand() {
        for &state in ENROLS {
            let moved = super::super::moved(state, Event::EnrollmentStarted);
            let expected = (state == State::BootstrapIssued).then_some(State::Enrolling);
            assert_eq!(moved, expected, "{state}");
        }
    }
}
