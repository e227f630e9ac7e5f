//! Why a resource is where it is.

use axum::{Extension, Json, extract::State};
use wardroom_api::gpu_node::Recommendation;
use wardroom_core::{
    node::{self, TABLE},
    run::action::ways,
    table::{Owner, Role},
    why::{Blocker, Next, Stay, Why, explain},
};
use wardroom_workflow::{NODE, RUN, Run};

use crate::{
    app::App,
    auth::Caller,
    error::Error,
    events, gpu_node, installs,
    liveness::view,
    node::{
        document::{self, Document, KIND},
        find, progress,
    },
    path::Path,
    problems::Problems,
    run, satellite,
};

/// What must hold to leave the state, who can act, since when, and what to do next.
#[utoipa::path(
    get, path = "/api/v1/resources/{kind}/{id}/why", params(("kind" = String, Path), ("id" = String, Path)),
    responses((status = 200, description = "The explanations", body = Vec<Object>), Problems)
)]
pub(crate) async fn why(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Vec<Why>>, Error> {
    if ![KIND, satellite::KIND, NODE, RUN].contains(&&*kind) {
        return Err(Error::invalid("kind", "must be node, satellite, gpu-node or run"));
    }
    if !events::may_see(&caller, &kind) {
        return Err(Error::Forbidden(format!("the token does not cover {kind}")));
    }
    match &*kind {
        satellite::KIND => satellite::why::why(&app, &id).await.map(Json),
        NODE => gpu_node::why::why(&app, &id).await.map(Json),
        RUN => Ok(Json(vec![of_run(&app, &run::find(&app, &id).await?).await?])),
        _ => of_node(&app, &id).await.map(Json),
    }
}

async fn of_node(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    let resource = find(app, id).await?;
    let (state, document) = (document::state(&resource)?, Document::of(&resource)?);
    let mut blockers = node::blockers(
        state,
        document.workflow_id.is_some(),
        document.install_attempts,
        document.last_install_error.as_deref(),
    );
    blockers.extend(view::blockers(app, KIND, id).await?);
    // An installation is overdue when it has been silent for too long, not when it is long.
    let mut stay = Stay::of(state, resource.state_changed_at);
    if state == node::State::Installing {
        let seen = progress::of(app, &resource).await?;
        stay.counted_from = installs::heard(app, &resource, seen.as_ref())?;
        stay.patience = Some(installs::patience(app));
    }
    Ok(vec![explain(TABLE, state, stay, app.now(), blockers)])
}

/// The call that is recommended, if one is.
pub(crate) fn asked(recommended: Recommendation) -> Option<Next> {
    let Recommendation { request, why, .. } = recommended;
    Some(Next::Ask { request: request?, role: Role::Operator, precondition: Some(why) })
}

/// A run; said so, since it is explained beside the node it works on.
pub(crate) async fn of_run(app: &App, run: &Run<gpu_node::data::Data>) -> Result<Why, Error> {
    let record = &run.record;
    let observed = run::view::observed(app, &record.node).await?;
    let facts = run::view::facts(app, run, observed.as_ref()).await?;
    let failure = record.failure.as_ref().filter(|failure| failure.stage == record.current());
    let failure = failure.map(|failure| failure.evidence.as_str());
    let next = run::view::recommendation(run, facts);
    let failures = record.failures.values().sum();
    let mut blockers = wardroom_core::run::blockers(run.state, record.current(), failures, failure, next);
    if let Some(frozen) = run::view::frozen(run) {
        let fix = next.and_then(wardroom_core::run::action::Action::call);
        blockers.insert(0, Blocker { what: frozen.to_string().into(), fix });
    }
    let mut stay = Stay::of(run.state, run.resource.state_changed_at);
    // The stage at work says more than the run as a whole.
    if run.state == wardroom_core::run::State::Running {
        stay.counted_from = record.since;
        stay.patience = Some(record.kind.patience_at(record.stage));
    }
    let table = wardroom_core::run::TABLE;
    let mut why = Why { about: "run", ..explain(table, run.state, stay, app.now(), blockers) };
    if let (Next::Nothing, Some(waiting)) = (&why.next, &record.waiting) {
        let until = format!("the run goes on ({})", waiting.reason).into();
        why.next = Next::Wait { by: Owner::Workflow, until };
    }
    if !run.state.is_worked_on() && run.state.is_open() {
        let digest = observed.as_ref().map(|observed| observed.digest.as_str());
        let advised = gpu_node::lifecycle::for_run(app, run, facts, digest);
        why.next = asked(advised).unwrap_or(why.next);
    }
    let ways = ways(facts);
    let mut rows = table.moves_from(run.state);
    why.exits.retain(|_| rows.next().is_some_and(|row| ways.contains(&row.on)));
    Ok(why)
}
