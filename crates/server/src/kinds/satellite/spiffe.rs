//! Creating satellites that register with an identity of their own.
//!
//! What must stay true: a SPIFFE ID belongs to one satellite for ever. A certificate of a deleted satellite
//! may still be shown, so its ID never comes back.

use std::time::Duration;

use axum::{Extension, Json, extract::State};
use uuid::Uuid;
use wardroom_api::satellite::{JoinToken, JoinTokenCreate};
use wardroom_core::satellite::State as SatelliteState;
use wardroom_store::Change;
use wardroom_upstream::spire::Id;

use super::{
    create::{after, interval},
    document::{self, Document, Flow, Registration},
    place, secret,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, problems::Problems, text},
    identity::auth::Caller,
    work::jobs,
};

/// How nodes attest to SPIRE.
const METHODS: &[&str] = &["join_token", "x509pop", "sshpop"];

/// How long a join token is valid, in seconds: unless told, and at most.
pub(crate) const DEFAULT_TTL: u64 = 600;
const LONGEST_TTL: u64 = 86_400;

/// Creates a satellite that registers with a SPIFFE ID: record, workload entry, join token.
#[utoipa::path(
    post, path = "/api/join-tokens", operation_id = "create_join_token", request_body = JoinTokenCreate,
    responses((status = 200, body = JoinToken), Problems)
)]
pub(crate) async fn join_token(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<JoinTokenCreate>,
) -> Result<Json<JoinToken>, Error> {
    register(&app, &caller, create).await.map(Json)
}

/// The same, under the name that the satellite project gave it later.
#[utoipa::path(
    post, path = "/api/satellites/register", operation_id = "register_satellite", request_body = JoinTokenCreate,
    responses((status = 200, body = JoinToken), Problems)
)]
pub(crate) async fn register_alias(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<JoinTokenCreate>,
) -> Result<Json<JoinToken>, Error> {
    register(&app, &caller, create).await.map(Json)
}

/// A request that was checked.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    region: String,
    method: String,
    ttl_seconds: u64,
}

fn check(create: &JoinTokenCreate) -> Result<Wanted, Error> {
    document::check_name("satellite_name", &create.satellite_name)?;
    text::check_labels(&create.labels)?;
    interval(create.heartbeat_interval.as_deref())?;
    let region = create.region.as_deref().filter(|region| !region.is_empty()).unwrap_or("default");
    document::check_region("region", region)?;
    let method = create.attestation_method.as_deref().filter(|method| !method.is_empty());
    let method = method.unwrap_or("join_token");
    if !METHODS.contains(&method) {
        let known = METHODS.join(", ");
        return Err(Error::invalid("attestation_method", format!("{method:?} is not one of: {known}")));
    }
    if create.selectors.is_empty() || create.selectors.len() > 100 {
        return Err(Error::invalid("selectors", "must have 1 to 100 entries, such as unix:uid:1000"));
    }
    let is_selector = |selector: &&String| {
        let split = selector.split_once(':');
        let parts = split.is_some_and(|(kind, value)| !kind.is_empty() && !value.is_empty());
        parts && selector.len() <= 255 && !selector.chars().any(char::is_control)
    };
    if let Some(wrong) = create.selectors.iter().position(|selector| !is_selector(&selector)) {
        return Err(Error::invalid(
            format!("selectors[{wrong}]"),
            "must be a type, a colon and a value, such as unix:uid:1000",
        ));
    }
    if method == "sshpop" && create.parent_agent_id.as_deref().is_none_or(str::is_empty) {
        return Err(Error::invalid(
            "parent_agent_id",
            "is missing: sshpop needs the SPIFFE ID of the parent agent",
        ));
    }
    let ttl_seconds = create.ttl_seconds.filter(|ttl| *ttl > 0).unwrap_or(DEFAULT_TTL).min(LONGEST_TTL);
    Ok(Wanted { region: region.to_owned(), method: method.to_owned(), ttl_seconds })
}

/// Checks the parent agent: it cannot be corrected later, and the satellite's name would be used up.
fn check_parent(parent: &str, trust_domain: &str) -> Result<(), Error> {
    let is_agent = |id: Id| id.trust_domain == trust_domain && !id.path.is_empty();
    if parent.len() <= 400 && parent.parse().is_ok_and(is_agent) {
        return Ok(());
    }
    let example = format!("must be a SPIFFE ID of the trust domain, such as spiffe://{trust_domain}/agent/a");
    Err(Error::invalid("parent_agent_id", example))
}

async fn register(app: &App, caller: &Caller, create: JoinTokenCreate) -> Result<JoinToken, Error> {
    let Wanted { region, method, ttl_seconds } = check(&create)?;
    let spire = place::spire(app).ok_or(Error::NotConfigured(
        "no SPIRE server is configured: set [spire] in the configuration of the server",
    ))?;
    place::check_reachable(app)?;
    if spire.address.is_empty() {
        return Err(Error::NotConfigured(
            "the server reaches SPIRE over a socket, which agents cannot use: set spire.agent_address \
             (WARDROOM_SPIRE_AGENT_ADDRESS) to the host and port under which they reach SPIRE",
        ));
    }
    if let Some(parent) = create.parent_agent_id.as_deref().filter(|parent| !parent.is_empty()) {
        check_parent(parent, &spire.trust_domain)?;
    }
    let name = create.satellite_name;
    let spiffe_id = format!("spiffe://{}/satellite/region/{region}/{name}", spire.trust_domain);
    let parent = create.parent_agent_id.filter(|parent| !parent.is_empty());
    let parent = parent.unwrap_or_else(|| format!("spiffe://{}/agent/{name}", spire.trust_domain));
    let id = Uuid::now_v7().to_string();
    let mut document = Document {
        flow: Flow::Spiffe,
        region: Some(region.clone()),
        attestation_method: Some(method),
        selectors: create.selectors,
        parent_agent_id: Some(parent.clone()),
        spiffe_id: Some(spiffe_id.clone()),
        groups: create.groups.unwrap_or_default().into_iter().collect(),
        config: create.config_name,
        heartbeat_interval: interval(create.heartbeat_interval.as_deref())?,
        epoch: FIRST,
        ..Document::default()
    };
    document.registration = joining(app, &id, &name, &document, ttl_seconds);
    let expires_at = document.registration.as_ref().map(|registration| registration.expires_at);
    let token = expires_at.map(|_| secret::join_token(&app.key, &id, FIRST));
    let content = document.content(id, name.clone(), SatelliteState::Pending, create.labels)?;
    super::create::commit(app, caller, content, vec![claim(app, caller, &spiffe_id)]).await?;
    Ok(JoinToken {
        satellite: name,
        region,
        spiffe_id,
        parent_agent_id: parent,
        join_token: token,
        expires_at,
        spire_server_address: spire.address,
        spire_server_port: spire.port,
        trust_domain: spire.trust_domain,
    })
}

/// The epoch of a new satellite.
pub(crate) const FIRST: u64 = 1;

/// Returns the fields of a new join token, where the node proves itself with one. An agent named in the
/// request exists already, and needs no token of ours.
pub(crate) fn joining(
    app: &App,
    id: &str,
    name: &str,
    document: &Document,
    ttl_seconds: u64,
) -> Option<Registration> {
    let token = secret::join_token(&app.key, id, document.epoch);
    document.has_own_agent(name).then(|| Registration {
        token_hash: secret::text_of(&secret::hash(&token)),
        expires_at: after(app.now(), Duration::from_secs(ttl_seconds)),
    })
}

/// Claims a SPIFFE ID with a record that is never deleted, so that it can be claimed only once.
fn claim(app: &App, caller: &Caller, spiffe_id: &str) -> Change {
    let after = jobs::server_record("spiffe-id", spiffe_id);
    let entry = by_person(app, caller, "registered", None);
    Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(change: impl FnOnce(&mut JoinTokenCreate)) -> Result<Wanted, Error> {
        let mut create = JoinTokenCreate {
            satellite_name: "edge".to_owned(),
            selectors: vec!["unix:uid:1000".to_owned()],
            ..JoinTokenCreate::default()
        };
        change(&mut create);
        check(&create)
    }

    #[test]
    fn missing_fields_have_defaults_and_a_long_life_is_cut() {
        let wanted = create(|_| {}).unwrap();
        let expected = Wanted { region: "default".into(), method: "join_token".into(), ttl_seconds: 600 };
        assert_eq!(wanted, expected);
        assert_eq!(create(|create| create.ttl_seconds = Some(1_000_000)).unwrap().ttl_seconds, 86_400);
        assert_eq!(create(|create| create.ttl_seconds = Some(0)).unwrap().ttl_seconds, 600);
        assert_eq!(create(|create| create.ttl_seconds = Some(60)).unwrap().ttl_seconds, 60);
    }

    #[test]
    fn an_agent_is_one_of_the_trust_domain() {
        for decent in ["spiffe://example.org/agent/a", "spiffe://example.org/spire/agent/sshpop/A-b_9.c"] {
            check_parent(decent, "example.org").unwrap();
        }
        let long = format!("spiffe://example.org/{}", "a".repeat(400));
        for wrong in [
            "agent",
            "spiffe://",
            "spiffe://example.org",
            "spiffe://example.org/",
            "spiffe://other.org/agent/a",
            "spiffe://example.org/a//b",
            "spiffe://example.org/a b",
            "spiffe://example.org.evil/a",
            &long,
        ] {
            assert!(matches!(check_parent(wrong, "example.org"), Err(Error::Invalid(_))), "{wrong}");
        }
    }

    #[test]
    fn requests_that_spire_would_refuse_are_refused_first() {
        type Wrong = fn(&mut JoinTokenCreate);
        let wrong: &[(&str, Wrong)] = &[
            ("no name", |create| create.satellite_name = String::new()),
            ("a bad region", |create| create.region = Some("a b".to_owned())),
            ("no selectors", |create| create.selectors.clear()),
            ("a selector without a colon", |create| create.selectors.push("docker".to_owned())),
            ("a selector without a value", |create| create.selectors.push("docker:".to_owned())),
            ("an unknown method", |create| create.attestation_method = Some("password".to_owned())),
            ("sshpop without an agent", |create| create.attestation_method = Some("sshpop".to_owned())),
            ("a bad interval", |create| create.heartbeat_interval = Some("often".to_owned())),
        ];
        for (what, change) in wrong {
            assert!(matches!(create(change), Err(Error::Invalid(_))), "{what}");
        }
    }
}
