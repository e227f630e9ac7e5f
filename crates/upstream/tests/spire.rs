//! The SPIRE client against the fake: every call, both ways in, every class of fault, and what was applied.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::{net::SocketAddr, path::Path, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use tempfile::TempDir;
use wardroom_fakes::{
    fault::Order,
    spire::{self as fake, Attestation, Refused},
};
use wardroom_upstream::{
    Failure, Repeat,
    spire::{Endpoint, Id, NewEntry, Selector, Spire, Tls},
};

const MINUTE: Duration = Duration::from_secs(60);

struct Site {
    fake: fake::Spire,
    spire: Spire,
    folder: TempDir,
}

impl Site {
    async fn start() -> Self {
        Self::with(fake::Options::default()).await
    }

    async fn with(options: fake::Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = Some(folder.path().join("api.sock"));
        let fake = fake::Spire::start(fake::Options { socket, ..options }).await.unwrap();
        let spire = client(folder.path(), None);
        Self { fake, spire, folder }
    }
}

fn client(folder: &Path, timeout: Option<Duration>) -> Spire {
    Spire::new(&Endpoint::Socket(folder.join("api.sock")), timeout).unwrap()
}

fn id(path: &str) -> Id {
    format!("spiffe://example.org{path}").parse().unwrap()
}

fn entry(name: &str) -> NewEntry {
    NewEntry {
        id: id(&format!("/satellite/region/eu/{name}")),
        parent: id(&format!("/agent/{name}")),
        selectors: vec![Selector { kind: "unix".to_owned(), value: "uid:0".to_owned() }],
        x509_ttl: 300,
    }
}

fn token(value: &str) -> Attestation {
    Attestation::JoinToken { token: value.to_owned() }
}

#[tokio::test]
async fn a_token_joins_one_node_once() {
    let Site { fake, spire, folder: _folder } = Site::start().await;
    let alias = id("/agent/edge-01");
    let made = spire.create_join_token(10 * MINUTE, Some(&alias)).await.unwrap();
    let aliases = spire.entries_of(&alias).await.unwrap();
    let real = made.agent("example.org");
    assert_eq!(aliases.len(), 1);
    assert_eq!(aliases[0].parent, real);

    assert_eq!(fake.attest(&token(made.value.expose())), Ok(real.to_string()));
    assert_eq!(fake.attest(&token(made.value.expose())), Err(Refused::UnknownToken), "a token joins once");
    let agents = spire.agents_by("join_token", &[]).await.unwrap();
    assert_eq!(agents.iter().map(|agent| (&agent.id, agent.is_banned)).collect::<Vec<_>>(), [(&real, false)]);
    assert_eq!(spire.agents_by("x509pop", &[]).await.unwrap(), []);

    let late = spire.create_join_token(MINUTE, None).await.unwrap();
    fake.advance(61);
    assert_eq!(fake.attest(&token(late.value.expose())), Err(Refused::ExpiredToken));
    assert!(!format!("{made:?}").contains(made.value.expose()));
}

#[tokio::test]
async fn an_entry_is_there_once() {
    let Site { fake, spire, folder: _folder } = Site::start().await;
    let first = spire.create_entry(&entry("edge-01")).await.unwrap();
    assert_eq!(spire.create_entry(&entry("edge-01")).await.unwrap(), first, "what is there is the answer");
    assert_eq!(spire.entries_of(&first.id).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(spire.entries_of(&id("/satellite/region/us/edge-01")).await.unwrap(), []);

    let ids = [first.entry_id.clone(), "gone".to_owned()];
    spire.delete_entries(&ids).await.unwrap();
    spire.delete_entries(&ids).await.unwrap();
    spire.delete_entries(&[]).await.unwrap();
    assert_eq!(spire.entries_of(&first.id).await.unwrap(), []);
    assert_eq!((fake.faults().count("entry.create"), fake.faults().count("entry.delete")), (1, 1));
}

#[tokio::test]
async fn lists_are_read_to_their_end() {
    let Site { fake, spire, folder: _folder } =
        Site::with(fake::Options { page: 2, ..fake::Options::default() }).await;
    for parent in 0..5 {
        let parent = id(&format!("/agent/{parent}"));
        spire.create_entry(&NewEntry { parent, ..entry("edge-01") }).await.unwrap();
        let token_of = spire.create_join_token(MINUTE, None).await.unwrap();
        fake.attest(&token(token_of.value.expose())).unwrap();
    }
    assert_eq!(spire.entries_of(&entry("edge-01").id).await.unwrap().len(), 5);
    assert_eq!(spire.agents_by("", &[]).await.unwrap().len(), 5);
}

/// One among many is asked for by what is known of it, instead of reading all of them.
#[tokio::test]
async fn one_node_is_found_among_many() {
    let Site { fake, spire, folder: _folder } = Site::start().await;
    let node = |number: usize| Attestation::X509pop {
        fingerprint: format!("{number:04}"),
        common_name: format!("edge-{number}"),
    };
    let all: Vec<Id> = (0..7).map(|number| fake.attest(&node(number)).unwrap().parse().unwrap()).collect();
    let named = Selector { kind: "x509pop".to_owned(), value: "subject:cn:edge-3".to_owned() };
    let found = spire.agents_by("x509pop", std::slice::from_ref(&named)).await.unwrap();
    assert_eq!(found.iter().map(|agent| &agent.id).collect::<Vec<_>>(), [&all[3]]);
    assert_eq!(spire.agents_by("join_token", &[named]).await.unwrap(), []);
    assert_eq!(spire.agent(&all[3]).await.unwrap(), found.into_iter().next());
    assert_eq!(spire.agent(&id("/spire/agent/join_token/none")).await, Ok(None));
}

#[tokio::test]
async fn a_banned_node_comes_back_only_when_it_is_forgotten() {
    let Site { fake, spire, folder: _folder } = Site::start().await;
    let node = Attestation::X509pop { fingerprint: "f00d".to_owned(), common_name: "edge-01".to_owned() };
    let real: Id = fake.attest(&node).unwrap().parse().unwrap();
    assert_eq!(fake.attest(&node), Ok(real.to_string()), "a node with a certificate may join again");

    spire.ban_agent(&real).await.unwrap();
    spire.ban_agent(&real).await.unwrap();
    assert!(spire.agents_by("", &[]).await.unwrap()[0].is_banned);
    assert_eq!(fake.attest(&node), Err(Refused::Banned));
    spire.delete_agent(&real).await.unwrap();
    spire.delete_agent(&real).await.unwrap();
    assert_eq!(fake.attest(&node), Ok(real.to_string()));

    assert_eq!(spire.ban_agent(&id("/spire/agent/join_token/none")).await, Err(Failure::NotFound));
    let alias = spire.ban_agent(&id("/agent/edge-01")).await.unwrap_err();
    assert!(matches!(alias, Failure::Refused { status: 400, .. }), "an alias is no node: {alias:?}");
}

#[tokio::test]
async fn refusals_of_single_items_are_noticed() {
    let Site { fake, spire, folder: _folder } = Site::start().await;
    let empty = NewEntry { selectors: Vec::new(), ..entry("edge-01") };
    let foreign = NewEntry { id: "spiffe://elsewhere/a".parse().unwrap(), ..entry("edge-01") };
    for wrong in [empty, foreign] {
        let failure = spire.create_entry(&wrong).await.unwrap_err();
        assert!(matches!(failure, Failure::Refused { status: 400, .. }), "{failure:?}");
    }
    assert_eq!(fake.faults().count("entry.create"), 0);
}

#[tokio::test]
async fn the_roots_of_the_trust_domain_are_told() {
    let options = fake::Options { roots: vec![vec![1, 2], vec![3]], ..fake::Options::default() };
    let Site { spire, .. } = &Site::with(options).await;
    let bundle = spire.bundle().await.unwrap();
    assert_eq!((bundle.trust_domain.as_str(), bundle.roots), ("example.org", vec![vec![1, 2], vec![3]]));
}

/// A call that changes something, with its names as a fault and as an effect.
const CALLS: [(&str, &str); 5] = [
    ("CreateJoinToken", "join_token.create"),
    ("BatchCreateEntry", "entry.create"),
    ("BatchDeleteEntry", "entry.delete"),
    ("BanAgent", "agent.ban"),
    ("DeleteAgent", "agent.delete"),
];

async fn send(call: &str, spire: &Spire, entry_id: &str, agent: &Id) -> Result<(), Failure> {
    match call {
        "CreateJoinToken" => spire.create_join_token(MINUTE, None).await.map(drop),
        "BatchCreateEntry" => spire.create_entry(&entry("fresh")).await.map(drop),
        "BatchDeleteEntry" => spire.delete_entries(&[entry_id.to_owned()]).await,
        "BanAgent" => spire.ban_agent(agent).await,
        _ => spire.delete_agent(agent).await,
    }
}

/// The kind of a fault, whether the call is applied, and what asking again needs.
const FAULTS: [(&str, u64, Repeat); 6] = [
    ("500", 0, Repeat::AfterLook),
    ("409", 0, Repeat::Useless),
    ("429", 0, Repeat::Safe),
    ("hang", 0, Repeat::AfterLook),
    ("lost_reply", 1, Repeat::AfterLook),
    ("slow", 1, Repeat::AfterLook),
];

/// How long a client waits before it concludes that no answer comes; generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_failure_says_what_is_known() {
    let mut cases = tokio::task::JoinSet::new();
    let mut sites = Vec::new();
    for (call, effect) in CALLS {
        for (kind, applied, repeat) in FAULTS {
            let site = Site::start().await;
            let entry_id = site.spire.create_entry(&entry("edge-01")).await.unwrap().entry_id;
            let node = Attestation::X509pop { fingerprint: "f".to_owned(), common_name: "c".to_owned() };
            let agent: Id = site.fake.attest(&node).unwrap().parse().unwrap();
            let before = site.fake.faults().count(effect);
            // Far slower than any caller waits.
            site.fake.faults().order(Order { delay_ms: 600_000, ..Order::once(call, kind) }).unwrap();
            let is_silent = matches!(kind, "hang" | "slow");
            let asking = client(site.folder.path(), is_silent.then_some(PATIENCE));
            // The first call of a client is its slowest.
            asking.bundle().await.unwrap();
            sites.push((call, kind, applied, repeat, effect, before, site, entry_id, agent, asking));
        }
    }
    let count = sites.len();
    for (call, kind, applied, repeat, effect, before, site, entry_id, agent, asking) in sites {
        cases.spawn(async move {
            let failure = send(call, &asking, &entry_id, &agent).await.unwrap_err();
            assert_eq!(failure.repeat(), repeat, "{call} with {kind}: {failure:?}");
            let effects = || site.fake.faults().count(effect);
            assert_eq!(effects(), before + applied, "{call} with {kind}");
            send(call, &site.spire, &entry_id, &agent).await.unwrap();

            // Only a token cannot be asked for twice with one effect, and banning twice is banned.
            let extra = match call {
                "CreateJoinToken" | "BanAgent" => applied,
                _ => 0,
            };
            assert_eq!(effects(), before + 1 + extra, "{call} after {kind}");
        });
    }
    assert_eq!(cases.join_all().await.len(), count);
}

#[tokio::test]
async fn an_absent_server_is_harmless_and_its_return_is_noticed() {
    let Site { fake, spire, folder } = Site::start().await;
    spire.bundle().await.unwrap();
    drop(fake);
    let failure = spire.create_entry(&entry("edge-01")).await.unwrap_err();
    // The connection of before may be used once more and break.
    assert_ne!(failure.repeat(), Repeat::Useless, "{failure:?}");
    let failure = client(folder.path(), None).create_entry(&entry("edge-01")).await.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)) && failure.repeat() == Repeat::Safe, "{failure:?}");

    let socket = Some(folder.path().join("api.sock"));
    let _fake = fake::Spire::start(fake::Options { socket, ..fake::Options::default() }).await.unwrap();
    // One more may break; then the client has connected again.
    let _ = spire.bundle().await;
    spire.create_entry(&entry("edge-01")).await.unwrap();
}

/// A certificate with one identity, signed by a trust domain.
fn certify(folder: &Path, name: &str, issuer: &Issuer<'_, KeyPair>, ids: &[&str]) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.subject_alt_names = ids.iter().map(|id| SanType::URI((*id).try_into().unwrap())).collect();
    let certificate = params.signed_by(&key, issuer).unwrap();
    std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

fn domain(folder: &Path, name: &str) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join(name), certificate.pem()).unwrap();
    Issuer::new(params, key)
}

#[tokio::test]
async fn over_tcp_both_sides_prove_their_identity() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ours = domain(folder.path(), "bundle.pem");
    let theirs = domain(folder.path(), "other.pem");
    let server_id = "spiffe://example.org/spire/server";
    certify(folder.path(), "server", &ours, &[server_id]);
    certify(folder.path(), "impostor", &ours, &["spiffe://example.org/satellite/x"]);
    certify(folder.path(), "two", &ours, &[server_id, "spiffe://example.org/x"]);
    certify(folder.path(), "foreign", &theirs, &[server_id]);
    certify(folder.path(), "admin", &ours, &["spiffe://example.org/wardroom"]);
    certify(folder.path(), "stranger", &theirs, &["spiffe://example.org/wardroom"]);

    for (server, caller, is_good) in [
        ("server", "admin", true),
        ("impostor", "admin", false),
        ("two", "admin", false),
        ("foreign", "admin", false),
        ("server", "stranger", false),
    ] {
        let tls = fake::Tls {
            certificate: at(&format!("{server}.pem")),
            key: at(&format!("{server}.key")),
            bundle: at("bundle.pem"),
        };
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = fake::Options { tcp: Some((listen, tls)), ..fake::Options::default() };
        let fake = fake::Spire::start(options).await.unwrap();
        let endpoint = Endpoint::Tcp(Box::new(Tls {
            address: fake.address().unwrap().to_string(),
            server: server_id.parse().unwrap(),
            bundle: at("bundle.pem"),
            certificate: at(&format!("{caller}.pem")),
            key: at(&format!("{caller}.key")),
        }));
        let answer = Spire::new(&endpoint, None).unwrap().bundle().await;
        assert_eq!(answer.is_ok(), is_good, "{server} and {caller}: {answer:?}");
        if caller == "admin" && !is_good {
            let failure = answer.unwrap_err();
            assert!(matches!(failure, Failure::Unreachable(_)), "nothing was sent to {server}: {failure:?}");
        }
    }
}

#[test]
fn an_address_without_a_port_is_refused() {
    let none = || "none".into();
    let endpoint = Endpoint::Tcp(Box::new(Tls {
        address: "spire.example".to_owned(),
        server: id("/spire/server"),
        bundle: none(),
        certificate: none(),
        key: none(),
    }));
    assert!(matches!(Spire::new(&endpoint, None), Err(Failure::Setup(_))));
}
