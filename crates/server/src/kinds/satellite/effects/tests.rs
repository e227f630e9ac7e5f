//! What SPIRE and Harbor are told by a server that stood still in the middle of it.

use std::time::Duration;

use serde_json::json;
use wardroom_fakes::{
    fault::Order,
    harbor as fake_harbor,
    spire::{Attestation, Options, Spire as Fake},
};
use wardroom_store::{Change, Content, Effect};
use wardroom_upstream::{
    Secret,
    harbor::{self, Harbor},
    spire::{Endpoint, Id, NewEntry, Selector, Spire},
};

use super::*;
use crate::{
    kinds::satellite::{
        document::{Document, Flow, KIND, Registration},
        secret,
    },
    platform::app::by_system,
};
use wardroom_core::satellite::State;

const MOMENT: Duration = Duration::from_millis(1);
const ALIAS: &str = "spiffe://example.org/agent/edge";

/// Two servers of one database beside one SPIRE.
struct World {
    app: App,
    first: Arc<Worker>,
    second: Arc<Worker>,
    fake: Fake,
    client: Spire,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let socket = dir.path().join("api.sock");
        let (trust_domain, socket) = ("example.org".to_owned(), Some(socket));
        let endpoint = Endpoint::Socket(socket.clone().unwrap());
        let fake = Fake::start(Options { trust_domain, socket, ..Options::default() }).await.unwrap();
        let client = Spire::new(&endpoint, None).unwrap();
        let worker =
            || Worker::new(app.clone(), Upstreams { spire: Some(client.clone()), ..Upstreams::default() });
        let (first, second) = (worker(), worker());
        Self { app, first, second, fake, client, _dir: dir }
    }

    /// A satellite whose agent joins with the token of this epoch.
    fn satellite(&self, epoch: u64, change: impl FnOnce(&mut Document)) -> Content {
        let expires_at = self.app.now().checked_add(SignedDuration::from_mins(10)).unwrap();
        let mut document = Document {
            flow: Flow::Spiffe,
            attestation_method: Some("join_token".to_owned()),
            selectors: vec!["unix:uid:1000".to_owned()],
            spiffe_id: Some("spiffe://example.org/satellite/region/eu/edge".to_owned()),
            epoch,
            registration: Some(Registration { token_hash: String::new(), expires_at }),
            ..Document::default()
        };
        change(&mut document);
        document.content("s".to_owned(), "edge".to_owned(), State::Pending, [].into()).unwrap()
    }

    /// Stores it, and asks for what SPIRE has to be told.
    async fn put(&self, after: Content) {
        put(&self.app, after, SPIRE_ENTRY).await;
    }

    fn token(&self, epoch: u64) -> Secret {
        Secret::new(secret::join_token(&self.app.key, "s", epoch))
    }

    fn agent(&self, epoch: u64) -> Id {
        format!("spiffe://example.org/spire/agent/join_token/{}", self.token(epoch).expose()).parse().unwrap()
    }

    fn join(&self, epoch: u64) -> Option<String> {
        self.fake.attest(&Attestation::JoinToken { token: self.token(epoch).expose().to_owned() }).ok()
    }

    /// Whose alias there is.
    async fn aliases(&self) -> Vec<Id> {
        let entries = self.client.entries_of(&ALIAS.parse().unwrap()).await.unwrap();
        entries.into_iter().map(|entry| entry.parent).collect()
    }

    async fn alias_of(&self, epoch: u64) {
        let selectors = vec![Selector { kind: "spiffe_id".to_owned(), value: self.agent(epoch).to_string() }];
        let id = ALIAS.parse().unwrap();
        let alias = NewEntry { id, parent: self.agent(epoch), selectors, x509_ttl: 0 };
        self.client.create_entry(&alias).await.unwrap();
    }

    /// Has the second server do all that it can have.
    async fn go_on(&self) {
        while let Some(effect) = claim(&self.second, CLAIM, SPIRE_ENTRY).await {
            Arc::clone(&self.second).perform(effect).await;
        }
    }
}

/// Stores a satellite, and asks for an effect.
async fn put(app: &App, after: Content, effect_type: &str) {
    let before = app.store.get(KIND, "s").await.unwrap();
    let entry = by_system(app, "registered", serde_json::Value::Null);
    let effects = vec![Effect { effect_type: effect_type.to_owned(), payload: json!({}) }];
    let (fence, holds) = (None, Vec::new());
    app.commit(Change { before, after, entry, effects, fence, holds }).await.unwrap();
}

async fn claim(worker: &Worker, length: Duration, effect_type: &str) -> Option<ClaimedEffect> {
    worker.app.store.claim_effects(&worker.holder, length, 1, &[effect_type]).await.unwrap().pop()
}

/// Waits until a call that was ordered to be slow has come.
async fn has_come(world: &World, effect: &str) {
    while world.fake.faults().count(effect) == 0 {
        tokio::time::sleep(MOMENT).await;
    }
}

/// A server stands still before it tells SPIRE of a token. Another one takes over, and tells it of the next token, after
/// a reissue; then the first one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stood_still_sends_no_outdated_state() {
    let world = World::new().await;
    let slow = Order { on: "GetAgent".to_owned(), kind: "slow".to_owned(), times: 1, delay_ms: 1500 };
    world.fake.faults().order(slow).unwrap();
    world.put(world.satellite(1, |_| {})).await;
    let effect = claim(&world.first, MOMENT, SPIRE_ENTRY).await.unwrap();
    let late = tokio::spawn(Arc::clone(&world.first).perform(effect));
    while world.fake.faults().left() > 0 {
        tokio::time::sleep(MOMENT).await;
    }
    let now = world.app.now();
    world.put(world.satellite(2, |document| document.svid_after = Some(now))).await;
    world.go_on().await;
    late.await.unwrap();
    assert_eq!(world.aliases().await, [world.agent(2)]);
    assert_eq!(world.join(1), None, "the token from before is of no use");
    world.go_on().await;
    assert_eq!(world.aliases().await, [world.agent(2)]);
    assert!(world.join(2).is_some());
}

/// A request that was sent before a pause arrives after another server has sent the current state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_is_corrected() {
    let world = World::new().await;
    let slow = Order { on: "BatchCreateEntry".to_owned(), kind: "slow".to_owned(), times: 1, delay_ms: 1500 };
    world.fake.faults().order(slow).unwrap();
    world.put(world.satellite(1, |_| {})).await;
    let effect = claim(&world.first, MOMENT, SPIRE_ENTRY).await.unwrap();
    let late = tokio::spawn(Arc::clone(&world.first).perform(effect));
    has_come(&world, "entry.create").await;
    // The claim was renewed before that call; now it lapses.
    world.app.store.release_effects(&world.first.holder).await.unwrap();
    let now = world.app.now();
    world.put(world.satellite(2, |document| document.svid_after = Some(now))).await;
    world.go_on().await;
    assert_eq!(world.aliases().await, [world.agent(2)]);
    world.alias_of(1).await;
    late.await.unwrap();
    world.go_on().await;
    assert_eq!(world.aliases().await, [world.agent(2)]);
}

/// The same for a robot: a worker that lost the claim, or read an outdated record, neither makes nor enables
/// one.
#[tokio::test]
async fn a_worker_without_its_claim_sends_harbor_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let app = crate::platform::bare::app(&dir).await;
    let options = fake_harbor::Options::default();
    let (username, password) = (options.username.clone(), Secret::new(options.password.clone()));
    let fake = fake_harbor::Harbor::start(options).await.unwrap();
    let (certificates, timeout) = (None, None);
    let client = harbor::Options { url: fake.url(), username, password, certificates, timeout };
    let upstreams = Upstreams { harbor: Some(Harbor::new(client).unwrap()), ..Upstreams::default() };
    let worker = Worker::new(app.clone(), upstreams);
    let satellite = || {
        let document = Document { epoch: 1, ..Document::default() };
        document.content("s".to_owned(), "edge".to_owned(), State::Pending, [].into()).unwrap()
    };
    put(&app, satellite(), HARBOR_ROBOT).await;
    let effect = claim(&worker, MOMENT, HARBOR_ROBOT).await.unwrap();
    tokio::time::sleep(10 * MOMENT).await;
    let other = app.store.claim_effects("another", CLAIM, 1, &[HARBOR_ROBOT]).await.unwrap();
    let refused = worker.reconcile(&effect).await;
    assert!(matches!(refused, Err(EffectError::Waiting(_))), "{refused:?}");
    assert_eq!(fake.state()["robots"], json!({}));
    app.store.release_effects("another").await.unwrap();
    assert_eq!(other.len(), 1);
    let effect = claim(&worker, CLAIM, HARBOR_ROBOT).await.unwrap();
    worker.reconcile(&effect).await.unwrap();
    assert_eq!(fake.state()["robots"].as_object().unwrap().len(), 1);
}

/// A plan is carried out as long as the record still has the facts that it was made from.
#[tokio::test]
async fn a_plan_ends_when_its_facts_change() {
    let world = World::new().await;
    world.put(world.satellite(1, |_| {})).await;
    let effect = claim(&world.first, CLAIM, SPIRE_ENTRY).await.unwrap();
    let record = world.app.store.get(KIND, "s").await.unwrap().unwrap();
    let basis = crate::kinds::satellite::document::basis;
    let permit = claim::Permit::of(&world.first, &effect, &record, basis).unwrap();
    permit.to(&()).await.unwrap();
    world.put(world.satellite(1, |document| document.config = Some("c".to_owned()))).await;
    permit.to(&()).await.unwrap();
    world.put(world.satellite(2, |_| {})).await;
    assert!(matches!(permit.to(&()).await, Err(EffectError::Changed)));
}
