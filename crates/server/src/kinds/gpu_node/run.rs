//! Runs: reading them, and the seven operator actions.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::{
    Envelope, Page,
    run::{Acted, Run as Shown, RunAction, RunDetail},
};
use wardroom_core::{
    run::action::{Action, Refusal},
    table::Role,
};
use wardroom_store::{List, Resource, Rows};
use wardroom_workflow::{Actor, Adoption, Ask, Did, Problem, RUN, Run, act};

use crate::{
    kinds::gpu_node::{self, resume, task},
    platform::{
        app::App,
        http::{
            body::Body,
            error::Error,
            list::{ListQuery, number},
            path::Path,
            problems::Problems,
            text,
        },
        identity::auth::Caller,
    },
};

pub(crate) mod panels;
pub(crate) mod view;
pub(crate) mod why;

use crate::kinds::gpu_node::data::Data as Known;

/// How many attempts are shown with a run; older ones are in its history.
const ATTEMPTS: usize = 500;

/// What people call a run: its node.
pub(crate) async fn title(app: &App, run: &Resource) -> Result<String, Error> {
    let node = run.content.fields.get("subject");
    let node = match node {
        Some(node) => app.store.get(gpu_node::document::KIND, node).await?,
        None => None,
    };
    Ok(node.map_or_else(|| run.content.id.clone(), |node| node.content.name))
}

/// Which runs, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunQuery {
    /// Only in this state.
    #[serde(rename = "status")]
    state: Option<String>,
    /// Only of this kind.
    kind: Option<String>,
    /// Only of this node.
    node_id: Option<String>,
    /// Only of this site.
    site: Option<String>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl RunQuery {
    fn list(self) -> Result<List, Error> {
        let known = |error: wardroom_core::UnknownName, field: &str| Error::invalid(field, error.to_string());
        if let Some(state) = &self.state {
            state.parse::<wardroom_core::run::State>().map_err(|error| known(error, "status"))?;
        }
        if let Some(kind) = &self.kind {
            kind.parse::<wardroom_core::run::plan::Kind>().map_err(|error| known(error, "kind"))?;
        }
        let fields = [("kind", self.kind), ("subject", self.node_id), ("site", self.site)];
        let fields = fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
        Ok(List {
            kind: RUN.to_owned(),
            state: self.state,
            fields: fields.collect::<BTreeMap<_, _>>(),
            after: self.cursor,
            limit: number("limit", self.limit.as_deref(), 100, 1..=1000)?,
            ..List::default()
        })
    }
}

/// Lists runs, oldest first.
#[utoipa::path(get, path = "/api/v1/runs", params(RunQuery), responses((status = 200, body = Page<Shown>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<RunQuery>,
) -> Result<Json<Page<Shown>>, Error> {
    let page = crate::platform::http::list::page(&app, query.list()?).await?;
    let runs: Vec<_> = page.items.into_iter().filter_map(readable).collect();
    let hostnames = view::hostnames(&app, &runs).await?;
    let shown = |run: &Run<Known>| view::shown(run, hostnames.get(run.subject()).cloned());
    let data = runs.iter().map(shown).collect();
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Skips an unreadable run, as after a downgrade, so that it hides no others.
fn readable(run: Resource) -> Option<Run<Known>> {
    let id = run.content.id.clone();
    Run::read(run).inspect_err(|error| tracing::warn!(run = id, %error, "a run cannot be shown")).ok()
}

/// Reads one run: its state and cause, the observation, every attempt, the agent's tasks, and the next step.
#[utoipa::path(get, path = "/api/v1/runs/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<RunDetail>), Problems))]
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Envelope<RunDetail>>, Error> {
    let run = find(&app, &id).await?;
    let observed = view::observed(&app, run.subject()).await?;
    let facts = view::facts(&app, &run, observed.as_ref()).await?;
    let (rows, _) = app.store.history(RUN, &id, Rows::All, ATTEMPTS, 0).await?;
    let tasks = task::of_run(&app, &id).await?;
    let shown = view::one(&app, &run).await?;
    Ok(Json(Envelope::new(RunDetail {
        tasks,
        ..view::detail(&run, shown, facts, observed, &rows, app.now())
    })))
}

/// Carries out an operator's action on a run. A repeat succeeds without effect, and says so.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/actions/{action}", request_body = RunAction,
    params(("id" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = Envelope<Acted>), (status = 202, description = "The run turns to it at its next safe point", body = Envelope<Acted>), Problems)
)]
pub(crate) async fn act_on(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, action)): Path<(String, String)>,
    Body(wanted): Body<RunAction>,
) -> Result<Response, Error> {
    let action: Action = action
        .parse()
        .map_err(|error: wardroom_core::UnknownName| Error::invalid("action", error.to_string()))?;
    check(&caller, action, &wanted)?;
    let adoption = adoption(&app, &id, action, &wanted).await?;
    let token = resume::renew(&app, &caller, &id, action, wanted.comment.as_ref()).await?;
    let actor = Actor {
        user: Some(caller.name().to_owned()),
        comment: wanted.comment,
        request_id: Some(caller.request_id.to_string()),
    };
    let ask = Ask { action, abandon: wanted.abandon, adoption, at: None, actor };
    let answer =
        act::<Known>(&app.store, &id, &ask, app.now()).await.map_err(|problem| refused(&id, problem))?;
    let run = Run::<Known>::read(answer.run)?;
    task::tidy_up(&app, run.subject()).await;
    let (status, result) = match answer.did {
        Did::Moved(event) => (StatusCode::OK, event.to_string()),
        Did::Headed(goal) => (StatusCode::ACCEPTED, format!("heading for {goal}")),
        Did::Requeued => (StatusCode::OK, "requeued".to_owned()),
        Did::Already(already) => (StatusCode::OK, already.to_string()),
    };
    let run = view::one(&app, &run).await?;
    let is_secret = token.is_some();
    Ok(gpu_node::shown((status, Json(Envelope::new(Acted { result, run, token }))), is_secret))
}

fn check(caller: &Caller, action: Action, wanted: &RunAction) -> Result<(), Error> {
    text::check_prose("comment", wanted.comment.as_deref(), 2000)?;
    if !wanted.abandon {
        return Ok(());
    }
    if action != Action::Cancel {
        return Err(Error::invalid("abandon", "goes with cancel only"));
    }
    if wanted.comment.as_deref().is_none_or(|comment| comment.trim().is_empty()) {
        return Err(Error::invalid(
            "comment",
            "is required: an abandoned run undoes nothing, and a person has to clean up",
        ));
    }
    if caller.identity().is_none_or(|identity| identity.role != Role::Admin) {
        return Err(Error::Forbidden("only the role admin may abandon a run".to_owned()));
    }
    Ok(())
}

/// Judges whether the run can adopt the observed state.
async fn adoption(app: &App, id: &str, action: Action, wanted: &RunAction) -> Result<Adoption, Error> {
    let run = find(app, id).await?;
    if action != Action::AdoptObservedState {
        // Refusals say whether it could be adopted.
        let observed = view::observed(app, run.subject()).await?;
        return Ok(view::adoption(&run, observed.as_ref()));
    }
    let Some(observed) = view::observed(app, run.subject()).await? else { return Ok(Adoption::Nothing) };
    let Some(expected) = &wanted.expected_observation_digest else {
        return Err(Error::invalid(
            "expected_observation_digest",
            "is required: read the run, check the observation, and send its digest",
        ));
    };
    if observed.digest != *expected {
        return Ok(Adoption::Outdated);
    }
    Ok(view::adoption(&run, Some(&observed)))
}

pub(crate) fn refused(id: &str, problem: Problem) -> Error {
    match problem {
        Problem::NotFound => Error::not_found(RUN, id),
        Problem::Refused { refusal, state, allowed } => Error::Conflict {
            code: refusal.as_str(),
            detail: format!("the run is {state}: {}", explained(refusal)),
            allowed: allowed.iter().map(|action| action.call().of(id)).collect(),
        },
        Problem::Busy => Error::Unavailable("too many requests change the run at once: retry"),
        Problem::Store(error) => error.into(),
    }
}

fn explained(refusal: Refusal) -> String {
    use wardroom_core::Named as _;
    refusal.meaning().to_owned()
}

/// A run, over or not.
pub(crate) async fn find(app: &App, id: &str) -> Result<Run<Known>, Error> {
    let found = app.store.get(RUN, id).await?.ok_or_else(|| Error::not_found(RUN, id))?;
    Ok(Run::read(found)?)
}
