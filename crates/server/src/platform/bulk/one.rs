//! The request of one member of a bulk request.

use std::sync::Arc;

use serde_json::Value;
use wardroom_api::{
    Problem,
    bulk::{BulkMember, BulkOutcome, BulkRequest, BulkResultWord as Word},
};
use wardroom_store::{Condition, Held, Outcome, Resource};

use super::verb::Verb;
use crate::platform::{
    console::inside::{Api, Asked},
    http::error::Error,
};

/// What became of a member.
pub(super) struct Done {
    pub(super) outcome: BulkOutcome,
    /// Whether its answer has a secret.
    pub(super) has_secret: bool,
}

/// Does the verb on a member that was read, or says what it would do.
pub(super) async fn one(
    api: &Api<'_>,
    verb: &Verb,
    request: &BulkRequest,
    member: BulkMember,
    found: Option<&Resource>,
) -> Done {
    let mut outcome = BulkOutcome {
        name: member.id.clone(),
        id: member.id,
        result: Word::Refused,
        version: found.map(|found| found.version),
        state: found.map(|found| found.content.state.clone()),
        becomes: None,
        zone: found.and_then(|found| api.app.liveness.zone_named(found)).map(str::to_owned),
        problem: None,
        answer: None,
    };
    let done = |outcome| Done { outcome, has_secret: false };
    let Some(found) = found else {
        outcome.problem = Some(api.problem(&Error::not_found(verb.kind, &outcome.id)));
        return done(outcome);
    };
    let stored = api.app.stored(verb.kind);
    let title = async {
        match stored {
            Some(stored) => stored.title(api.app, found).await.ok(),
            None => Some(found.content.name.clone()),
        }
    };
    outcome.name = title.await.filter(|title| !title.is_empty()).unwrap_or_else(|| outcome.id.clone());
    let wanted = member.version.unwrap_or(found.version);
    if wanted != found.version {
        return done(overtaken(api, outcome));
    }
    let held = Held { kind: verb.kind.to_owned(), id: outcome.id.clone(), version: wanted };
    let condition = if request.dry_run { Condition::dry_run(held) } else { Condition::unchanged(held) };
    let asked = Asked {
        method: &request.method,
        path: &verb.path(&outcome.id),
        body: request.body.clone(),
        once: None,
        condition: Some(Arc::clone(&condition)),
    };
    let answered = api.ask_once(asked).await;
    let Outcome { writes, becomes, deletes, moved } = condition.outcome();
    let has_moved = moved
        || !request.dry_run && !writes && answered.is_err() && has_moved(api, verb, &outcome, wanted).await;
    let has_secret = matches!(&answered, Ok((_, true)));
    match answered {
        // A dry run stops at the first write with an error of its own.
        _ if request.dry_run && writes => {
            outcome.result = Word::Changed;
            outcome.becomes = if deletes { Some("deleted".to_owned()) } else { becomes };
        }
        Err(_) if has_moved => return done(overtaken(api, outcome)),
        Err(problem) => outcome.problem = Some(problem),
        Ok((answer, _)) => {
            outcome.result = if writes { Word::Changed } else { Word::Unchanged };
            outcome.becomes = if writes { now(api, verb, &outcome.id).await } else { None };
            outcome.answer =
                Some(answer).filter(|answer| (request.answers || has_secret) && *answer != Value::Null);
        }
    }
    Done { outcome, has_secret }
}

/// The state of a member after its change; it may have no other than its deletion.
async fn now(api: &Api<'_>, verb: &Verb, id: &str) -> Option<String> {
    let Ok(Some(found)) = api.app.store.get(verb.kind, id).await else { return None };
    Some(if found.content.deleted { "deleted".to_owned() } else { found.content.state })
}

/// Whether a member has another version now.
async fn has_moved(api: &Api<'_>, verb: &Verb, outcome: &BulkOutcome, version: i64) -> bool {
    let found = api.app.store.get(verb.kind, &outcome.id).await;
    matches!(found, Ok(Some(found)) if found.version != version)
}

fn overtaken(api: &Api<'_>, outcome: BulkOutcome) -> BulkOutcome {
    let problem: Problem = api.problem(&Error::Conflict {
        code: "changed",
        detail: "it changed since the dry run, and was left alone: look at it, and make another dry run"
            .to_owned(),
        allowed: Vec::new(),
    });
    BulkOutcome { result: Word::Overtaken, problem: Some(problem), ..outcome }
}
