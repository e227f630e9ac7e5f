//! Identities in SPIRE, and satellites that show them.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use reqwest::Method;
use serde_json::{Value, json};
use wardroom_fakes::{
    fault::Order,
    spire::{Attestation, Options, Spire, Tls},
};

use crate::{
    site::{Credential, Site, eventually, on_both, send},
    states::pull,
};

on_both! {
    a_satellite_joins_registers_and_beats_by_its_certificate,
    a_revoked_identity_is_refused_at_once_withdrawn_and_banned,
    an_agent_that_joined_before_a_reissue_is_kept_out,
    a_token_that_was_replaced_before_it_was_recorded_is_told_again,
    a_late_deletion_leaves_a_successor_its_agent,
    a_lost_answer_makes_no_second_token_or_entry,
    no_token_is_stored_in_clear,
    an_agent_that_joined_early_is_banned_too,
    spire_is_reached_over_mutual_tls,
    nodes_with_proofs_of_their_own_are_found_and_never_banned,
    entries_of_others_are_left_alone,
    a_changed_time_to_live_is_updated,
    an_agent_of_another_domain_is_refused_and_uses_nothing_up,
    a_satellite_with_a_token_has_nothing_to_do_with_spire,
    agents_are_told_where_spire_is,
    a_satellite_that_joined_in_time_needs_no_new_token,
    a_banned_agent_vouches_for_no_satellite,
    two_nodes_of_one_name_do_not_take_turns,
    a_satellite_without_a_listener_for_certificates_says_so,
}

const DOMAIN: &str = "example.org";

/// A trust domain with its authority.
struct Domain {
    issuer: Issuer<'static, KeyPair>,
    root: Vec<u8>,
}

impl Domain {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root = params.self_signed(&key).unwrap().der().to_vec();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// Certificate and key of an identity, as PEM.
    /// One that was issued now, or long ago.
    fn svid(&self, id: &str, is_new: bool) -> (String, String) {
        self.svid_from(id, is_new.then_some(0))
    }

    /// One that begins so many seconds ago, or long ago.
    fn svid_from(&self, id: &str, ago: Option<u64>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        if let Some(ago) = ago {
            let now = u64::try_from(wardroom_server::platform::clock::Clock.now().as_second()).unwrap();
            params.not_before = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(now - ago);
        }
        params.subject_alt_names = vec![SanType::URI(id.try_into().unwrap())];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server beside a fake SPIRE, from which it also has its trust bundle.
struct World {
    site: Site,
    spire: Spire,
    domain: Domain,
    /// The server's settings for both.
    sections: String,
    _files: tempfile::TempDir,
}

async fn world() -> World {
    world_over(Over::Socket).await
}

/// How SPIRE is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Socket,
    Tls,
}

async fn world_over(over: Over) -> World {
    let (files, domain) = (tempfile::tempdir().unwrap(), Domain::new());
    let path = |name: &str| files.path().join(name);
    for (name, id) in
        [("own", "spiffe://example.org/wardroom"), ("spire", "spiffe://example.org/spire/server")]
    {
        let (certificate, key) = domain.svid(id, false);
        std::fs::write(path(&format!("{name}.pem")), certificate).unwrap();
        std::fs::write(path(&format!("{name}.key")), key).unwrap();
    }
    std::fs::write(path("bundle.pem"), pem(&domain.root)).unwrap();
    let tls = Tls { certificate: path("spire.pem"), key: path("spire.key"), bundle: path("bundle.pem") };
    let options = Options {
        trust_domain: DOMAIN.to_owned(),
        socket: (over == Over::Socket).then(|| path("api.sock")),
        tcp: (over == Over::Tls).then(|| (([127, 0, 0, 1], 0).into(), tls)),
        roots: vec![domain.root.clone()],
        ..Options::default()
    };
    let spire = Spire::start(options).await.unwrap();
    let address = match spire.address() {
        Some(address) => format!(
            "{address}\"\ncertificate = {:?}\nkey = {:?}\nbundle = {:?}\n",
            path("own.pem"),
            path("own.key"),
            path("bundle.pem")
        ),
        None => format!("unix://{}\"\n", path("api.sock").display()),
    };
    let sections = format!(
        "[spire]\naddress = \"{address}agent_address = \"spire.example:8081\"\ntrust_domain = {DOMAIN:?}\n\
         [spiffe]\nlisten = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\n",
        path("own.pem"),
        path("own.key"),
    );
    World { site: Site::start(&sections).await, spire, domain, sections, _files: files }
}

fn pem(certificate: &[u8]) -> String {
    let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

impl World {
    /// Creates a satellite and gives its SPIFFE ID and join token.
    async fn create(&self, name: &str) -> (String, String) {
        self.create_in("eu", name).await
    }

    async fn create_in(&self, region: &str, name: &str) -> (String, String) {
        let wanted = json!({"satellite_name": name, "region": region, "selectors": ["unix:uid:1000"]});
        let made = self.site.post("/api/join-tokens", wanted).await.expect(200);
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (text("spiffe_id"), text("join_token"))
    }

    /// Lets the agent of a satellite join as soon as SPIRE knows its token.
    async fn join(&self, token: &str) -> String {
        eventually("a token that works", async || {
            self.spire.attest(&Attestation::JoinToken { token: token.to_owned() }).ok()
        })
        .await
    }

    fn entries(&self, id: &str) -> Vec<Value> {
        let state = self.spire.state();
        let entries = state["entries"].as_object().unwrap().values();
        entries.filter(|entry| entry["spiffe_id"] == id).cloned().collect()
    }

    fn agent(&self, id: &str) -> Option<Value> {
        self.spire.state()["agents"].get(id).cloned()
    }

    fn client(&self, id: &str) -> reqwest::Client {
        self.client_with(self.domain.svid(id, false))
    }

    /// One with a certificate as SPIRE issues it: it begins ten seconds before. Times in it are whole seconds, so this
    /// one is made a second later than anything that was done.
    async fn issued_later(&self, id: &str) -> reqwest::Client {
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        self.client_with(self.domain.svid_from(id, Some(10)))
    }

    fn client_with(&self, (certificate, key): (String, String)) -> reqwest::Client {
        self.builder((certificate, key)).build().unwrap()
    }

    /// A client that speaks one version of TLS.
    fn client_over(&self, id: &str, version: reqwest::tls::Version) -> reqwest::Client {
        let builder = self.builder(self.domain.svid(id, false));
        builder.tls_version_min(version).tls_version_max(version).build().unwrap()
    }

    fn builder(&self, (certificate, key): (String, String)) -> reqwest::ClientBuilder {
        let identity = reqwest::Identity::from_pem(format!("{certificate}{key}").as_bytes()).unwrap();
        // The server's certificate names an identity and no host.
        let builder = reqwest::Client::builder().no_proxy().identity(identity);
        builder.tls_danger_accept_invalid_certs(true)
    }

    /// SPIRE answers nothing that we ask it.
    fn away(&self) {
        for on in ["ListEntries", "BatchCreateEntry", "BatchDeleteEntry", "CreateJoinToken", "GetAgent"] {
            let order = Order { on: on.to_owned(), kind: "503".to_owned(), times: 10_000, delay_ms: 0 };
            self.spire.faults().order(order).unwrap();
        }
    }

    fn at(&self, path: &str) -> String {
        format!("https://{}{path}", self.site.spiffe.unwrap())
    }
}

/// C9: the server shows a certificate of its own, takes that of the client instead of a secret, over TLS 1.2 and 1.3.
async fn a_satellite_joins_registers_and_beats_by_its_certificate() {
    let world = world().await;
    let (id, token) = world.create("edge").await;
    let agent = world.join(&token).await;
    world.site.settled("edge", &[]).await;
    let entry = &world.entries(&id)[0];
    assert_eq!(entry["parent_id"], "spiffe://example.org/agent/edge");
    assert_eq!(world.entries("spiffe://example.org/agent/edge")[0]["parent_id"], agent.as_str());

    let client = world.client(&id);
    let registered = eventually("the trust bundle to arrive", async || {
        let answer = client.get(world.at("/satellites/spiffe-ztr")).send().await.ok()?;
        assert_eq!(answer.status(), 200);
        Some(serde_json::from_slice::<Value>(&answer.bytes().await.unwrap()).unwrap())
    });
    let credential = Credential::of(&registered.await);
    assert_eq!(world.site.beat(&credential).await, 200, "with what it was given");
    let state = pull(&world.site, &credential, &credential.state).await.unwrap();
    let config = pull(&world.site, &credential, state["config"].as_str().unwrap()).await.unwrap();
    assert_eq!(config["app_config"]["ground_control_url"], world.at(""), "where its certificate counts");
    let beat = || client.post(world.at("/satellites/sync")).json(&json!({}));
    assert_eq!(send(beat()).await.status, 200, "and by its certificate");
    let again = send(client.get(world.at("/satellites/spiffe-ztr"))).await.expect(200);
    assert_eq!(Credential::of(&again).password, credential.password, "a lost answer is repeated");
    assert_eq!(send(client.get(world.at("/v2/"))).await.status, 200);
    for version in [reqwest::tls::Version::TLS_1_2, reqwest::tls::Version::TLS_1_3] {
        let client = world.client_over(&id, version);
        let beat = client.post(world.at("/satellites/sync")).json(&json!({}));
        assert_eq!(send(beat).await.status, 200, "{version:?}");
    }
    assert_eq!(send(client.get(world.at("/api/satellites"))).await.status, 404, "nothing else is here");

    // The same name elsewhere is another identity, and unknown.
    for other in ["spiffe://example.org/satellite/region/us/edge", "spiffe://example.org/satellite/edge"] {
        let stranger = world.client(other);
        assert_eq!(send(stranger.get(world.at("/satellites/spiffe-ztr"))).await.status, 401, "{other}");
        assert_eq!(send(stranger.post(world.at("/satellites/sync")).json(&json!({}))).await.status, 401);
    }
    let anonymous =
        reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
    assert!(
        anonymous.get(world.at("/satellites/spiffe-ztr")).send().await.is_err(),
        "no certificate, no connection"
    );
    let elsewhere = world.site.http.get(format!("{}/satellites/spiffe-ztr", world.site.url));
    assert_eq!(send(elsewhere).await.status, 401, "not without mTLS");
}

async fn a_revoked_identity_is_refused_at_once_withdrawn_and_banned() {
    let world = world().await;
    let (id, token) = world.create("edge").await;
    let agent = world.join(&token).await;
    world.site.settled("edge", &[]).await;
    let client = world.client(&id);
    eventually("a registration", async || {
        client
            .get(world.at("/satellites/spiffe-ztr"))
            .send()
            .await
            .ok()
            .filter(|answer| answer.status() == 200)
    })
    .await;
    let beat = || client.post(world.at("/satellites/sync")).json(&json!({}));
    assert_eq!(send(beat()).await.status, 200);

    let down = Order { on: "ListEntries".to_owned(), kind: "503".to_owned(), times: 10_000, delay_ms: 0 };
    world.spire.faults().order(down).unwrap();
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    assert_eq!(send(beat()).await.status, 403, "on the connection that was open, before SPIRE was told");
    assert_eq!(send(client.get(world.at("/satellites/spiffe-ztr"))).await.status, 403);
    let error = eventually("an error that is shown", async || {
        let effects = world.site.effects("edge").await;
        effects.into_iter().find(|(type_, _, error)| type_ == "spire_entry" && !error.is_empty())
    });
    assert!(!error.await.2.contains(&token), "no token in an error");
    // SPIRE delays no revocation: a revoked satellite is refused.
    let why = world.site.get("/api/v1/resources/satellite/edge/why").await["data"][0].clone();
    let blockers = why["blockers"].as_array().unwrap();
    let is_own = |blocker: &Value| blocker["what"].as_str().unwrap().contains("still runs and asks");
    assert!(blockers.len() == 1 && is_own(&blockers[0]), "its program keeps asking, and nothing else: {why}");
    assert!(
        why["meaning"].as_str().unwrap().contains("It is refused already; spire_entry was tried"),
        "{why}"
    );
    assert_eq!(why["next"]["body"], json!({"mode": "reissue"}), "{why}");
    assert_eq!(why["exits"][0]["call"]["body"]["mode"], "reissue", "{why}");
    assert_eq!(world.entries(&id).len(), 1);
    world.spire.faults().clear();
    world.site.settled("edge", &[]).await;
    assert!(world.entries(&id).is_empty() && world.entries("spiffe://example.org/agent/edge").is_empty());
    assert_eq!(world.agent(&agent).unwrap()["banned"], true);
    assert_eq!(world.spire.faults().count("agent.ban"), 1);

    for mode in ["refresh", "keep"] {
        let refused =
            world.site.post("/api/satellites/edge/reenable", json!({"mode": mode})).await.expect(409);
        assert_eq!(
            (&refused["code"], &refused["allowed_actions"][0]["body"]["mode"]),
            (&json!("agent_banned"), &json!("reissue"))
        );
    }
    let back = world.site.post("/api/satellites/edge/reenable", json!({"mode": "reissue"})).await.expect(200);
    let next = back["join_token"].as_str().unwrap().to_owned();
    assert_ne!(next, token);
    let joined = world.join(&next).await;
    world.site.settled("edge", &[]).await;
    assert!(world.agent(&agent).is_none(), "the banned agent is forgotten");
    assert_eq!(world.entries("spiffe://example.org/agent/edge")[0]["parent_id"], joined.as_str());
    let ztr = world.at("/satellites/spiffe-ztr");
    assert_eq!(send(client.get(&ztr)).await.status, 401, "a certificate from before may be in wrong hands");
    let fresh = world.client_with(world.domain.svid(&id, true));
    send(fresh.get(&ztr)).await.expect(200);
    assert_eq!(send(beat()).await.status, 401, "and does not beat for the new one either");
    assert_eq!(send(fresh.post(world.at("/satellites/sync")).json(&json!({}))).await.status, 200);

    world.site.ask(Method::DELETE, "/api/satellites/edge", None).await.expect(200);
    assert_eq!(send(beat()).await.status, 401);
    assert_eq!(
        send(client.get(world.at("/satellites/spiffe-ztr"))).await.status,
        401,
        "it does not come back"
    );
    eventually("everything of it to go", async || {
        (world.entries(&id).is_empty() && world.agent(&joined).is_none()).then_some(())
    })
    .await;
    let again = json!({"satellite_name": "edge", "region": "eu", "selectors": ["unix:uid:1000"]});
    world.site.post("/api/join-tokens", again).await.expect(409);
}

/// A satellite is reissued because its node cannot be trusted. SPIRE keeps giving that node certificates
/// until the effect is done.
async fn an_agent_that_joined_before_a_reissue_is_kept_out() {
    const ALIAS: &str = "spiffe://example.org/agent/edge";
    let world = world().await;
    let (id, token) = world.create("edge").await;
    let agent = world.join(&token).await;
    world.site.settled("edge", &[]).await;
    let ztr = world.at("/satellites/spiffe-ztr");
    let first = world.client(&id);
    eventually("a registration", async || {
        first.get(&ztr).send().await.ok().filter(|answer| answer.status() == 200)
    })
    .await;

    world.away();
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    let reissue = json!({"mode": "reissue"});
    let back = world.site.post("/api/satellites/edge/reenable", reissue).await.expect(200);
    let old_node = world.issued_later(&id).await;
    send(old_node.get(&ztr)).await.expect(503);
    assert_eq!(send(old_node.post(world.at("/satellites/sync")).json(&json!({}))).await.status, 401);
    assert_eq!(world.site.get("/api/satellites/edge").await["data"]["status"], "pending");

    world.spire.faults().clear();
    let joined = world.join(back["join_token"].as_str().unwrap()).await;
    world.site.settled("edge", &[]).await;
    assert!(world.agent(&agent).is_none(), "it is not the satellite's any more");
    assert_eq!(world.entries(ALIAS).len(), 1);
    assert_eq!(world.entries(ALIAS)[0]["parent_id"], joined.as_str());
    send(old_node.get(&ztr)).await.expect(401);
    let new_node = world.client_with(world.domain.svid(&id, true));
    send(new_node.get(&ztr)).await.expect(200);
    assert_eq!(send(new_node.post(world.at("/satellites/sync")).json(&json!({}))).await.status, 200);
    assert_eq!(send(old_node.post(world.at("/satellites/sync")).json(&json!({}))).await.status, 401);
    send(old_node.get(&ztr)).await.expect(401);

    // Nothing of this is repeated for other changes of a registered satellite.
    world.site.group("g", &["library/x"]).await;
    world.site.post("/api/groups/satellite", json!({"satellite": "edge", "group": "g"})).await.expect(200);
    world.site.settled("edge", &[]).await;
    assert_eq!(world.entries(ALIAS)[0]["parent_id"], joined.as_str());
    assert_eq!(send(new_node.post(world.at("/satellites/sync")).json(&json!({}))).await.status, 200);
}

/// SPIRE gets a token, and before that is recorded the satellite has another one: the second counts, and an
/// agent that joined with the first is removed.
async fn a_token_that_was_replaced_before_it_was_recorded_is_told_again() {
    let world = world().await;
    let down =
        Order { on: "BatchCreateEntry".to_owned(), kind: "503".to_owned(), times: 10_000, delay_ms: 0 };
    world.spire.faults().order(down).unwrap();
    let (id, token) = world.create("edge").await;
    let agent = world.join(&token).await;
    let back = world.site.post("/api/satellites/edge/reenable", json!({"mode": "reissue"})).await.expect(200);
    let ztr = world.at("/satellites/spiffe-ztr");
    // Certificates from before the first one was shut out are void for every holder.
    eventually("the first one to be shut out", async || world.agent(&agent).is_none().then_some(())).await;
    let early = eventually("the trust bundle to arrive", async || {
        let early = world.issued_later(&id).await;
        let answer = early.get(&ztr).send().await.ok()?;
        (answer.status() == 503).then_some(early)
    })
    .await;
    let joined = world.join(back["join_token"].as_str().unwrap()).await;
    world.spire.faults().clear();
    world.site.settled("edge", &[]).await;
    let aliases = world.entries("spiffe://example.org/agent/edge");
    assert_eq!((aliases.len(), &aliases[0]["parent_id"]), (1, &json!(joined)));
    send(early.get(&ztr)).await.expect(200);
}

/// The alias of an agent has no region in it: the deletion of a satellite while SPIRE is down removes only
/// its own entries, and not those of a newer satellite of its name.
async fn a_late_deletion_leaves_a_successor_its_agent() {
    const ALIAS: &str = "spiffe://example.org/agent/edge";
    let world = world().await;
    let (old, token) = world.create("edge").await;
    let old_agent = world.join(&token).await;
    world.site.settled("edge", &[]).await;
    let away =
        Order { on: "BatchDeleteEntry".to_owned(), kind: "503".to_owned(), times: 10_000, delay_ms: 0 };
    world.spire.faults().order(away).unwrap();
    world.site.ask(Method::DELETE, "/api/satellites/edge", None).await.expect(200);
    let (new, token) = world.create_in("us", "edge").await;
    let agent = world.join(&token).await;
    eventually("an attempt to let the other one in", async || {
        let effects = world.site.effects("edge").await;
        effects.iter().any(|(_, _, error)| !error.is_empty()).then_some(())
    })
    .await;
    let parents = || -> Vec<_> {
        world.entries(ALIAS).iter().map(|entry| entry["parent_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((world.entries(&old).len(), parents()), (1, vec![old_agent.clone()]), "the deletion is late");
    assert_eq!(world.entries(&new).len(), 0, "it would be handed to the agent of the first one");

    world.spire.faults().clear();
    eventually("the first one to go", async || {
        (world.entries(&old).is_empty() && world.agent(&old_agent).is_none()).then_some(())
    })
    .await;
    world.site.settled("edge", &[]).await;
    assert_eq!(parents(), [agent.as_str()], "its own way in is gone, and the other's is not");
    assert_eq!(world.entries(&new).len(), 1);
    assert!(world.agent(&agent).is_some());
}

async fn a_lost_answer_makes_no_second_token_or_entry() {
    let world = world().await;
    for call in ["CreateJoinToken", "BatchCreateEntry"] {
        world.spire.faults().order(Order::once(call, "lost_reply")).unwrap();
    }
    let (id, token) = world.create("edge").await;
    world.join(&token).await;
    world.site.settled("edge", &[]).await;
    assert_eq!(world.spire.faults().count("join_token.create"), 1);
    assert_eq!(world.entries(&id).len(), 1);
    assert_eq!(world.entries("spiffe://example.org/agent/edge").len(), 1);
}

/// SPIRE knows the token before that is recorded: an agent that joins in between is banned like any other.
async fn an_agent_that_joined_early_is_banned_too() {
    let world = world().await;
    let down =
        Order { on: "BatchCreateEntry".to_owned(), kind: "503".to_owned(), times: 10_000, delay_ms: 0 };
    world.spire.faults().order(down).unwrap();
    let (_, token) = world.create("edge").await;
    let agent = world.join(&token).await;
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    world.site.settled("edge", &[]).await;
    assert_eq!(world.agent(&agent).unwrap()["banned"], true);
}

/// Neither token nor secret is in the database, before or after they are used.
async fn no_token_is_stored_in_clear() {
    let world = world().await;
    let (_, token) = world.create("edge").await;
    world.join(&token).await;
    world.site.settled("edge", &[]).await;
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    world.site.settled("edge", &[]).await;
    let dir = world.site.end().await;
    let mut files = 0;
    for file in std::fs::read_dir(dir.path().join("data")).unwrap() {
        let file = file.unwrap();
        // The folder of secrets holds what people put there.
        if file.file_name() == "admin.token" || file.file_name() == "secrets" {
            continue;
        }
        let bytes = std::fs::read(file.path()).unwrap();
        let found = bytes.windows(token.len()).any(|window| window == token.as_bytes());
        assert!(!found, "{:?} holds the join token", file.file_name());
        files += 1;
    }
    assert!(files > 0);
}

/// The whole course of a satellite, with the SVID of an administrator instead of the private socket.
async fn spire_is_reached_over_mutual_tls() {
    let world = world_over(Over::Tls).await;
    let (id, token) = world.create("edge").await;
    let agent = world.join(&token).await;
    world.site.settled("edge", &[]).await;
    assert_eq!(world.entries(&id).len(), 1);
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    world.site.settled("edge", &[]).await;
    assert!(world.entries(&id).is_empty());
    assert_eq!(world.agent(&agent).unwrap()["banned"], true);
}

/// A node that attests with its own certificate or key gets no token, is found by its selectors or its given
/// id, and is not banned, because it may serve others.
async fn nodes_with_proofs_of_their_own_are_found_and_never_banned() {
    let world = world().await;
    let make = async |wanted: Value| world.site.post("/api/join-tokens", wanted).await.expect(200);
    let selectors = json!(["unix:uid:1000"]);
    let by_certificate =
        make(json!({"satellite_name": "edge", "selectors": selectors, "attestation_method": "x509pop"}))
            .await;
    assert_eq!((&by_certificate["join_token"], &by_certificate["expires_at"]), (&Value::Null, &Value::Null));
    let error = eventually("an error that says what is missing", async || {
        let effects = world.site.effects("edge").await;
        effects.into_iter().find(|(type_, _, error)| type_ == "spire_entry" && !error.is_empty())
    });
    assert!(error.await.2.contains("has no agent yet"), "the node has not joined");
    let node = Attestation::X509pop { fingerprint: "f00d".to_owned(), common_name: "edge".to_owned() };
    let agent = world.spire.attest(&node).unwrap();
    world.site.settled("edge", &[]).await;
    let id = by_certificate["spiffe_id"].as_str().unwrap();
    assert_eq!(world.entries(id)[0]["parent_id"], agent.as_str());

    let parent = "spiffe://example.org/spire/agent/sshpop/abc";
    for method in ["sshpop", "join_token"] {
        let name = format!("edge-{}", method.replace('_', "-"));
        let made = make(json!({
            "satellite_name": name, "selectors": selectors, "attestation_method": method, "parent_agent_id": parent,
        }));
        let made = made.await;
        assert_eq!(
            made["join_token"],
            Value::Null,
            "{method}: an agent that is there joins with nothing of ours"
        );
        world.site.settled(&name, &[]).await;
        assert_eq!(world.entries(made["spiffe_id"].as_str().unwrap())[0]["parent_id"], parent);
    }

    // It registers, is revoked and comes back without a new proof: its agent is where it was.
    let client = world.client(id);
    let ztr = || client.get(world.at("/satellites/spiffe-ztr"));
    eventually("a registration", async || ztr().send().await.ok().filter(|answer| answer.status() == 200))
        .await;
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    world.site.settled("edge", &[]).await;
    assert!(world.entries(id).is_empty());
    assert_eq!(world.agent(&agent).unwrap()["banned"], false);
    world.site.post("/api/satellites/edge/reenable", json!({"mode": "keep"})).await.expect(200);
    world.site.settled("edge", &[]).await;
    assert_eq!(world.entries(id).len(), 1);
    let beat = async || send(client.post(world.at("/satellites/sync")).json(&json!({}))).await.expect(200);
    beat().await;

    // Its certificate is valid at the address it is sent to.
    world.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    world.site.post("/api/satellites/edge/reenable", json!({"mode": "refresh"})).await.expect(200);
    let told = beat().await;
    assert_eq!(told["refresh"]["url"], world.at("/satellites/refresh"));
    send(client.post(told["refresh"]["url"].as_str().unwrap())).await.expect(200);
    assert_eq!(beat().await["refresh"], Value::Null);
}

/// Other users may have reasons of their own to give a workload the same identity. Our entries are replaced
/// when they are outdated.
async fn entries_of_others_are_left_alone() {
    use wardroom_upstream::spire::{Endpoint, NewEntry, Selector, Spire as Client};
    let world = world().await;
    let (id, _) = world.create("edge").await;
    world.site.settled("edge", &[]).await;
    let own = world.entries(&id);
    let client = Client::new(&Endpoint::Socket(world._files.path().join("api.sock")), None).unwrap();
    let selector = Selector { kind: "unix".to_owned(), value: "uid:0".to_owned() };
    let parent = "spiffe://example.org/agent/other".parse().unwrap();
    let theirs = NewEntry { id: id.parse().unwrap(), parent, selectors: vec![selector], x509_ttl: 60 };
    let theirs = client.create_entry(&theirs).await.unwrap();
    // A foreign alias for an agent that joined with a foreign token.
    let alias = NewEntry {
        id: "spiffe://example.org/agent/edge".parse().unwrap(),
        parent: "spiffe://example.org/spire/agent/join_token/theirs".parse().unwrap(),
        selectors: vec![Selector { kind: "unix".to_owned(), value: "uid:1".to_owned() }],
        x509_ttl: 0,
    };
    let alias = client.create_entry(&alias).await.unwrap();
    // Ours lives for another time than it should.
    let ours = client.entries_of(&theirs.id).await.unwrap();
    let ours = ours.into_iter().find(|entry| entry.entry_id != theirs.entry_id).unwrap();
    assert_eq!(own.len(), 1);

    world
        .site
        .post("/api/groups/sync", json!({"group": "g", "registry": "https://registry.example"}))
        .await
        .expect(200);
    world.site.post("/api/groups/satellite", json!({"satellite": "edge", "group": "g"})).await.expect(200);
    world.site.settled("edge", &[]).await;
    let left: Vec<_> =
        client.entries_of(&theirs.id).await.unwrap().into_iter().map(|entry| entry.entry_id).collect();
    assert!(left.contains(&theirs.entry_id), "{left:?}");
    assert!(left.contains(&ours.entry_id), "{left:?}");
    let aliases = client.entries_of(&alias.id).await.unwrap();
    assert!(aliases.contains(&alias), "{aliases:?}");
    assert_eq!(aliases.len(), 2);
}

/// A name that was used up by a mistake could not be had again.
async fn an_agent_of_another_domain_is_refused_and_uses_nothing_up() {
    let world = world().await;
    let wanted = |parent: &str| json!({"satellite_name": "edge", "selectors": ["unix:uid:1000"], "parent_agent_id": parent});
    for parent in ["spiffe://", "spiffe://example.org", "spiffe://other.org/agent/a"] {
        let refused = world.site.post("/api/join-tokens", wanted(parent)).await.expect(400);
        assert!(refused.to_string().contains("parent_agent_id"), "{refused}");
    }
    world.site.post("/api/join-tokens", wanted("spiffe://example.org/agent/a")).await.expect(200);
    world.site.settled("edge", &[]).await;
}

async fn a_satellite_with_a_token_has_nothing_to_do_with_spire() {
    let world = world().await;
    let token = world.site.create("plain", &[]).await;
    world.site.register(&token).await;
    world.site.post("/api/satellites/plain/revoke", json!({})).await.expect(200);
    assert_eq!(world.site.effects("plain").await, []);
}

/// An agent has no use for the socket by which we reach SPIRE.
async fn agents_are_told_where_spire_is() {
    let world = world().await;
    let wanted = |name: &str| json!({"satellite_name": name, "selectors": ["unix:uid:1000"]});
    let made = world.site.post("/api/join-tokens", wanted("edge")).await.expect(200);
    assert_eq!(
        (&made["spire_server_address"], &made["spire_server_port"]),
        (&json!("spire.example"), &json!(8081))
    );
    let untold = world.sections.replace("agent_address = \"spire.example:8081\"\n", "");
    let site = world.site.restart(&untold).await;
    let refused = site.post("/api/join-tokens", wanted("other")).await.expect(503);
    assert_eq!(refused["code"], "not_configured", "{refused}");
    assert!(refused.to_string().contains("spire.agent_address"), "{refused}");
}

/// Following the advice of `why` must not shut out a node that is just coming up.
async fn a_satellite_that_joined_in_time_needs_no_new_token() {
    let world = world().await;
    let wanted = json!({"satellite_name": "edge", "selectors": ["unix:uid:1000"], "ttl_seconds": 1});
    world.site.post("/api/join-tokens", wanted).await.expect(200);
    let why = eventually("the token to end", async || {
        let why = world.site.get("/api/v1/resources/satellite/edge/why").await["data"].clone();
        why.to_string().contains("join token expired").then_some(why)
    })
    .await;
    let (why, next) = (why.to_string(), why[0]["next"].to_string());
    assert!(why.contains("if its agent had not joined SPIRE by then"), "{why}");
    assert!(!next.contains("POST"), "{next}");
}

/// A node with a new certificate joins as another agent, and the previous one may be banned.
async fn a_banned_agent_vouches_for_no_satellite() {
    use wardroom_upstream::spire::{Endpoint, Spire as Client};
    let world = world().await;
    let client = Client::new(&Endpoint::Socket(world._files.path().join("api.sock")), None).unwrap();
    let attest = |fingerprint: &str| {
        let (fingerprint, common_name) = (fingerprint.to_owned(), "edge".to_owned());
        world.spire.attest(&Attestation::X509pop { fingerprint, common_name }).unwrap()
    };
    for banned in ["0a", "0c"] {
        client.ban_agent(&attest(banned).parse().unwrap()).await.unwrap();
    }
    let agent = attest("0b");
    let wanted =
        json!({"satellite_name": "edge", "selectors": ["unix:uid:1000"], "attestation_method": "x509pop"});
    let made = world.site.post("/api/join-tokens", wanted).await.expect(200);
    world.site.settled("edge", &[]).await;
    let id = made["spiffe_id"].as_str().unwrap().parse().unwrap();
    let parents = async || -> Vec<_> {
        client.entries_of(&id).await.unwrap().into_iter().map(|entry| entry.parent.to_string()).collect()
    };
    assert_eq!(parents().await, [agent.as_str()]);

    // Nothing is changed here, and the node has another one.
    client.ban_agent(&agent.parse().unwrap()).await.unwrap();
    let next = attest("00");
    let _site = world.site.restart(&world.sections).await;
    eventually("the next one to vouch for it", async || (parents().await == [next.as_str()]).then_some(()))
        .await;
}

/// A shorter life of identities, which cannot be revoked, applies to the present ones too.
async fn a_changed_time_to_live_is_updated() {
    use wardroom_upstream::spire::{Endpoint, Spire as Client};
    let world = world().await;
    let (id, _) = world.create("edge").await;
    world.site.settled("edge", &[]).await;
    let client = Client::new(&Endpoint::Socket(world._files.path().join("api.sock")), None).unwrap();
    let lives = async || {
        let entries = client.entries_of(&id.parse().unwrap()).await.unwrap();
        entries.iter().map(|entry| entry.x509_ttl).collect::<Vec<_>>()
    };
    assert_eq!(lives().await.len(), 1);
    assert_ne!(lives().await, [77]);
    let shorter = world.sections.replace("trust_domain = ", "svid_ttl_seconds = 77\ntrust_domain = ");
    let site = world.site.restart(&shorter).await;
    site.group("g", &["library/x"]).await;
    site.post("/api/groups/satellite", json!({"satellite": "edge", "group": "g"})).await.expect(200);
    site.settled("edge", &[]).await;
    assert_eq!(lives().await, [77]);
}

/// Two nodes have a certificate with the satellite's name, and renew alternately.
async fn two_nodes_of_one_name_do_not_take_turns() {
    let world = world().await;
    let attest = |fingerprint: &str| {
        let (fingerprint, common_name) = (fingerprint.to_owned(), "edge".to_owned());
        world.spire.attest(&Attestation::X509pop { fingerprint, common_name }).unwrap()
    };
    let agent = attest("0a");
    let wanted =
        json!({"satellite_name": "edge", "selectors": ["unix:uid:1000"], "attestation_method": "x509pop"});
    let made = world.site.post("/api/join-tokens", wanted).await.expect(200);
    world.site.settled("edge", &[]).await;
    world.spire.advance(60);
    attest("0b");
    world.site.group("g", &["library/x"]).await;
    world.site.post("/api/groups/satellite", json!({"satellite": "edge", "group": "g"})).await.expect(200);
    world.site.settled("edge", &[]).await;
    let entries = world.entries(made["spiffe_id"].as_str().unwrap());
    let parents: Vec<_> = entries.iter().map(|entry| entry["parent_id"].as_str().unwrap()).collect();
    assert_eq!(parents, [agent.as_str()]);
}

async fn a_satellite_without_a_listener_for_certificates_says_so() {
    let world = world().await;
    world.create("edge").await;
    let why = async |site: &Site| site.get("/api/v1/resources/satellite/edge/why").await.to_string();
    assert!(!why(&world.site).await.contains("[spiffe]"));
    let (without, _) = world.sections.split_once("[spiffe]").unwrap();
    let site = world.site.restart(without).await;
    let why = why(&site).await;
    assert!(why.contains("[spiffe]"), "{why}");
}
