//! Reports of machines: hardware and installation.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use wardroom_api::{
    Envelope,
    node::{InstallationStatus, Node, NodeCreate, NodeReport},
};
use wardroom_core::node::{
    State as NodeState, TABLE,
    report::{Facts, InstallStatus, Outcome, judge},
};
use wardroom_store::{Content, Entry, Resource, TRANSITION};

use crate::kinds::node::proof::Machine;
use crate::kinds::node::settings::Settings;
use crate::{
    kinds::{
        node::{
            self,
            document::{self, Document, KIND},
            progress,
        },
        node::{discovery, install_token, promote},
    },
    platform::{
        app::{App, Decided},
        http::{body::Reported, error::Error, path::Path, problems::Problems, text},
        identity::auth::Caller,
    },
};

/// Takes a node's report of its hardware and its installation; an unknown machine is registered.
///
/// Fields of an approved node are recorded only with its install token; without one, the answer has only the
/// state of the node.
#[utoipa::path(
    post, path = "/api/v1/report", request_body = NodeReport, security((), ("token" = [])),
    responses((status = 200, body = Envelope<Node>), Problems)
)]
pub(crate) async fn report(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Reported { value: report, ignored }: Reported<NodeReport>,
) -> Result<Response, Error> {
    let mac = text::mac("mac_address", &report.mac_address)?;
    let checked = CheckedReport::of_report(&report)?;
    let resource = match node::find_by_mac(&app, &mac).await? {
        Some(resource) => resource,
        // A token is only valid for an existing node.
        None if shows_token(&caller, report.install_token.as_deref()) && must_prove(&app, &caller) => {
            return Err(install_token::BAD);
        }
        None => discovery::discover(&app, &caller, &mac, &checked.hardware).await?,
    };
    let mut response = take(&app, &caller, &resource, &checked, report.install_token.as_deref()).await?;
    ignored.warn(&mut response);
    Ok(response)
}

/// Reports the progress of a node's installation only.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/installation-status", request_body = InstallationStatus, security((), ("token" = [])),
    params(("id" = String, Path)), responses((status = 200, body = Envelope<Node>), Problems)
)]
pub(crate) async fn installation_status(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Reported { value: status, ignored }: Reported<InstallationStatus>,
) -> Result<Response, Error> {
    let checked = CheckedReport::of_status(&status)?;
    let resource = node::find(&app, &id).await?;
    let mut response = take(&app, &caller, &resource, &checked, status.install_token.as_deref()).await?;
    ignored.warn(&mut response);
    Ok(response)
}

struct CheckedReport {
    hardware: Hardware,
    installation: Option<Installation>,
}

/// The hardware that a machine reports; absent fields are unknown.
#[derive(Default, Clone)]
pub(crate) struct Hardware {
    pub(crate) ip_address: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) vendor: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) serial_number: Option<String>,
    pub(crate) system_uuid: Option<String>,
}

impl Hardware {
    fn check(&self) -> Result<(), Error> {
        let texts = [
            ("ip_address", &self.ip_address),
            ("hostname", &self.hostname),
            ("vendor", &self.vendor),
            ("model", &self.model),
            ("serial_number", &self.serial_number),
            ("system_uuid", &self.system_uuid),
        ];
        texts.iter().try_for_each(|(field, text)| text::check_reported(field, text.as_deref()))
    }
}

struct Installation {
    status: InstallStatus,
    progress: Option<u8>,
    error: Option<String>,
    attempt: Option<String>,
}

impl Installation {
    /// The reported progress; only reports of progress have one.
    fn said(&self) -> Option<u8> {
        self.progress.filter(|_| self.status == InstallStatus::Progress)
    }
}

impl CheckedReport {
    fn of_report(report: &NodeReport) -> Result<Self, Error> {
        let status = report.installation_status.as_deref();
        let progress = percent("installation_progress", report.installation_progress)?;
        let error = words("installation_error", report.installation_error.as_ref())?;
        text::check_some("attempt_id", report.attempt_id.as_deref(), 100)?;
        let installation = match status {
            Some(status) => Some(Installation {
                status: parse("installation_status", status)?,
                progress,
                error,
                attempt: report.attempt_id.clone(),
            }),
            None => None,
        };
        let hardware = Hardware {
            ip_address: report.ip_address.clone(),
            hostname: report.hostname.clone(),
            vendor: report.vendor.clone(),
            model: report.model.clone(),
            serial_number: report.serial_number.clone(),
            system_uuid: report.system_uuid.clone(),
        };
        hardware.check()?;
        Ok(Self { hardware, installation })
    }

    fn of_status(status: &InstallationStatus) -> Result<Self, Error> {
        let error = words("error", status.error.as_ref())?;
        text::check_some("attempt_id", status.attempt_id.as_deref(), 100)?;
        let installation = Installation {
            status: parse("status", &status.status)?,
            progress: percent("progress", status.progress)?,
            error,
            attempt: status.attempt_id.clone(),
        };
        Ok(Self { hardware: Hardware::default(), installation: Some(installation) })
    }
}

impl CheckedReport {
    fn completes(&self) -> bool {
        self.installation.as_ref().is_some_and(|installation| installation.status == InstallStatus::Complete)
    }
}

/// The reported error of an installation.
fn words(field: &str, error: Option<&String>) -> Result<Option<String>, Error> {
    text::check_reported(field, error.map(String::as_str))?;
    let mut error = error.cloned();
    error.iter_mut().for_each(|error| text::scrub_prose(error, 4000));
    Ok(error)
}

fn parse(field: &str, text: &str) -> Result<InstallStatus, Error> {
    text.parse().map_err(|error: wardroom_core::UnknownName| Error::invalid(field, error.to_string()))
}

fn percent(field: &str, value: Option<i64>) -> Result<Option<u8>, Error> {
    let Some(value) = value else { return Ok(None) };
    let percent = u8::try_from(value).ok().filter(|percent| *percent <= 100);
    percent.map(Some).ok_or_else(|| Error::invalid(field, "must be a whole number from 0 to 100"))
}

/// Handles a report, with one commit.
async fn take(
    app: &App,
    caller: &Caller,
    found: &Resource,
    checked: &CheckedReport,
    token_in_body: Option<&str>,
) -> Result<Response, Error> {
    let id = &found.content.id;
    let promotion =
        if checked.completes() { promote::setting(app, &Document::of(found)?).await? } else { None };
    let seen = progress::of(app, found).await?.and_then(|seen| seen.percent);
    let (resource, Answer { message, alive, is_known }) = app
        .change(KIND, id, |node| {
            let mut document = Document::of(node)?;
            let known = authenticate(app, caller, node, &document, token_in_body);
            // If a machine shows a token, the token must be valid.
            if checked.installation.is_some() || shows_token(caller, token_in_body) {
                known.clone()?;
            }
            let unheard = unheard(document::state(node)?, known.is_ok());
            if unheard.is_none() {
                note(&mut document, &checked.hardware);
                document.check()?;
            }
            let Step { state, entry_type, metadata, message, alive } =
                step(app, node, &mut document, checked, seen)?;
            let message = unheard.filter(|_| checked.installation.is_none()).map_or(message, str::to_owned);
            let said = Answer { message, alive, is_known: known.is_ok() };
            if state == NodeState::Installed && entry_type == TRANSITION {
                document.promotion.clone_from(&promotion);
            }
            let content = document.content_of(node, state.as_str(), node.content.labels.clone())?;
            if content == node.content {
                return Ok(Decided::Nothing(said));
            }
            let entry = by_report(app, caller, entry_type, metadata);
            Ok(Decided::Commit(Box::new((content, entry)), said))
        })
        .await?;
    if alive {
        let percent = checked.installation.as_ref().and_then(Installation::said);
        progress::note(app, &resource, percent).await?;
    }
    let installed = resource.content.state.clone();
    let resource = promote::carry_out(app, resource).await?;
    let state = &resource.content.state;
    let message = if *state == installed { message } else { format!("The node is {state}.") };
    if is_known {
        node::answer(app, &resource, Some(&message)).await
    } else {
        outline(&resource, Some(message))
    }
}

struct Answer {
    message: String,
    alive: bool,
    /// Whether the caller is authenticated for the node.
    is_known: bool,
}

/// Returns why the fields of a report are not recorded. Before approval any host may report for a machine;
/// afterwards it needs the token.
fn unheard(state: NodeState, is_known: bool) -> Option<&'static str> {
    if state == NodeState::Retired {
        Some("The report was not recorded: the node is retired.")
    } else if state == NodeState::Discovered || is_known {
        None
    } else {
        Some("The report was not recorded: it needs the install token of the boot script.")
    }
}

/// Shows only the state of a node, for a caller without proof.
pub(crate) fn outline(resource: &Resource, message: Option<String>) -> Result<Response, Error> {
    let (node, _) = document::view_and_etag(resource, Document::of(resource)?)?;
    let data = Node {
        hostname: None,
        ip_address: None,
        workflow_id: None,
        group_id: None,
        vendor: None,
        model: None,
        serial_number: None,
        system_uuid: None,
        labels: BTreeMap::new(),
        last_install_error: None,
        ..node
    };
    Ok(Json(Envelope { success: true, data, message }).into_response())
}

struct Step {
    state: NodeState,
    entry_type: &'static str,
    metadata: serde_json::Value,
    message: String,
    /// Whether it only shows that the installation continues.
    alive: bool,
}

/// `seen` is the previous progress.
fn step(
    app: &App,
    node: &Resource,
    document: &mut Document,
    checked: &CheckedReport,
    seen: Option<u8>,
) -> Result<Step, Error> {
    let state = document::state(node)?;
    let still = |message: &str, alive| Step {
        state,
        entry_type: "reported",
        metadata: serde_json::Value::Null,
        message: message.to_owned(),
        alive,
    };
    let Some(installation) = &checked.installation else {
        return Ok(still("The report was recorded.", false));
    };
    let facts =
        Facts { state, attempts: document.install_attempts, counted_attempts: &document.counted_attempts };
    let outcome = judge(facts, installation.status, installation.attempt.as_deref());
    if !matches!(outcome, Outcome::Progress | Outcome::Ignored(_)) {
        document.last_install_report = Some(app.now());
        document.install_progress = seen.or(document.install_progress);
    }
    Ok(match outcome {
        Outcome::Ignored(reason) => {
            use wardroom_core::Named as _;
            still(reason.meaning(), state == NodeState::Installing)
        }
        Outcome::Progress => still("The progress was recorded.", true),
        Outcome::Attempt { attempts } => {
            failed(document, installation, attempts);
            let metadata = json!({"attempt": attempts, "error": installation.error});
            Step {
                state,
                entry_type: "attempt",
                metadata,
                message: format!("Attempt {attempts} failed; the next boot tries again."),
                alive: false,
            }
        }
        Outcome::Move { event, attempts } => {
            let to = TABLE.find(state, event).ok_or(Error::Internal)?.to;
            let metadata = if to == NodeState::InstallFailed {
                failed(document, installation, attempts);
                json!({"attempt": attempts, "error": installation.error})
            } else {
                document.enter(to, true, None);
                serde_json::Value::Null
            };
            if to == NodeState::Installed {
                document.install_progress = Some(100);
            }
            let message = format!("The node is {to}.");
            Step { state: to, entry_type: TRANSITION, metadata, message, alive: false }
        }
    })
}

fn failed(document: &mut Document, installation: &Installation, attempts: u32) {
    document.install_attempts = attempts;
    document.last_install_error.clone_from(&installation.error);
    document.counted_attempts.extend(installation.attempt.clone());
}

/// Records the reported hardware. Texts of firmware are cleaned and cut, because a machine cannot correct
/// them.
fn note(document: &mut Document, hardware: &Hardware) {
    let pairs = [
        (&mut document.ip_address, &hardware.ip_address),
        (&mut document.reported_hostname, &hardware.hostname),
        (&mut document.vendor, &hardware.vendor),
        (&mut document.model, &hardware.model),
        (&mut document.serial_number, &hardware.serial_number),
        (&mut document.system_uuid, &hardware.system_uuid),
    ];
    for (slot, said) in pairs {
        if let Some(said) = said {
            text::scrub(slot.insert(said.clone()), 255);
        }
    }
}

/// Whether a caller needs the install token of the node. The configuration may exempt the boot networks.
fn must_prove(app: &App, caller: &Caller) -> bool {
    let settings = Settings::of(&app.config);
    caller.identity().is_none()
        && (settings.require_install_token || !settings.is_boot_network(caller.address))
}

fn shows_token(caller: &Caller, token_in_body: Option<&str>) -> bool {
    caller.member::<Machine>().is_some() || token_in_body.is_some()
}

/// Checks that the caller may report for a node: the node with the token of its boot script, or an operator.
fn authenticate(
    app: &App,
    caller: &Caller,
    node: &Resource,
    document: &Document,
    token_in_body: Option<&str>,
) -> Result<(), Error> {
    if !must_prove(app, caller) {
        return Ok(());
    }
    let presented = caller.member().map(|Machine { token }| &**token).or(token_in_body);
    let presented = presented.ok_or(Error::Unauthenticated(
        "send the install token of the boot script as Authorization: Bearer … or as install_token",
    ))?;
    install_token::verify(&app.key, presented, &node.content.id, document.install_round, app.now())
}

/// Builds the history entry of a machine's report.
pub(crate) fn by_report(app: &App, caller: &Caller, entry_type: &str, metadata: serde_json::Value) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "node_report".to_owned(),
        user_id: caller.identity().map(|identity| identity.name.clone()),
        comment: None,
        metadata,
        request_id: Some(caller.request_id.to_string()),
        at: app.now(),
    }
}

pub(crate) fn discovered(mac: &str, hardware: &Hardware) -> Result<Content, Error> {
    let mut document = Document::new(NodeCreate { mac_address: mac.to_owned(), ..NodeCreate::default() })?;
    note(&mut document, hardware);
    document.check()?;
    document.into_content(NodeState::Discovered, None)
}
