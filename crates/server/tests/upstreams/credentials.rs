//! Credentials of satellites over time: repeats, their limits, and what voids a credential.

use serde_json::{Value, json};
use wardroom_server::platform::clock::Clock;

use crate::site::{Answer, Credential, Site, eventually, on_both, send};

on_both! {
    a_stale_satellite_repeats_a_lost_registration,
    a_registration_is_repeated_for_a_minute_only,
    a_new_credential_voids_the_old_one_also_when_it_was_silent_meanwhile,
    an_old_credential_is_exchanged_in_time_only,
    a_satellite_revoked_during_its_exchange_is_known_by_either_credential,
}

const MINUTE: i64 = 60;

/// A server without a grace, whose wall clock a file moves.
struct World {
    site: Site,
    clock: tempfile::NamedTempFile,
    /// A satellite to read the server's time with.
    watch: Credential,
}

async fn world() -> World {
    let clock = tempfile::NamedTempFile::new().unwrap();
    let liveness = format!(
        "[liveness]\ngrace_seconds = 1\nflush_seconds_shared = 1\ndefault_interval_seconds = 1\ntest_clock_file = {:?}\n",
        clock.path()
    );
    let site = Site::start(&liveness).await;
    let watch = site.register(&site.create("watch", &[]).await).await;
    World { site, clock, watch }
}

impl World {
    /// A satellite that is missed after seconds, and its registration token.
    async fn create(&self) -> String {
        let wanted = json!({"name": "edge", "heartbeat_interval": "@every 1s"});
        let created = self.site.post("/api/satellites", wanted).await.expect(200);
        created["token"].as_str().unwrap().to_owned()
    }

    async fn exchange(&self, token: &str) -> Answer {
        let request = self.site.http.post(format!("{}/satellites/ztr", self.site.url));
        send(request.header("Idempotency-Key", "one").json(&json!({"token": token}))).await
    }

    async fn refresh(&self, credential: &Credential) -> Answer {
        let request = self.site.http.post(format!("{}/satellites/refresh", self.site.url));
        send(credential.sign(request)).await
    }

    async fn sync(&self, credential: &Credential) -> Answer {
        let request = self.site.http.post(format!("{}/satellites/sync", self.site.url));
        send(credential.sign(request).json(&json!({}))).await
    }

    async fn state(&self) -> Value {
        self.site.get("/api/satellites/edge").await["data"]["status"].clone()
    }

    async fn is_missed(&self) {
        eventually("it to be stale", async || (self.state().await == "stale").then_some(())).await;
    }

    /// A satellite that was revoked and may come back with its old credential.
    async fn reenabled(&self) -> Credential {
        let token = self.create().await;
        let old = Credential::of(&self.exchange(&token).await.expect(200));
        self.site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
        self.site.post("/api/satellites/edge/reenable", json!({"mode": "refresh"})).await.expect(200);
        old
    }

    /// Turns the wall clock, and waits until the server has seen it.
    async fn turn(&self, seconds: i64) {
        std::fs::write(self.clock.path(), format!("{} 0", seconds * 1000)).unwrap();
        eventually("the clock to be turned", async || {
            let said = self.sync(&self.watch).await.expect(200);
            let time: jiff::Timestamp = said["server_time"].as_str().unwrap().parse().unwrap();
            ((time.as_second() - Clock.now().as_second() - seconds).abs() < MINUTE / 2).then_some(())
        })
        .await;
    }
}

/// A satellite that lost the answer to its registration does not beat, so it may be stale before the minute
/// is over.
async fn a_stale_satellite_repeats_a_lost_registration() {
    let world = world().await;
    let token = world.create().await;
    let lost = Credential::of(&world.exchange(&token).await.expect(200));
    // However long this test takes.
    world.turn(-60 * MINUTE).await;
    world.is_missed().await;
    let again = Credential::of(&world.exchange(&token).await.expect(200));
    assert_eq!(again.password, lost.password);
    assert_eq!(world.state().await, "online", "it was heard");
    world.is_missed().await;
    assert_eq!(world.site.beat(&again).await, 200, "and is watched again");
    let history = world.site.get("/api/v1/history?limit=1000").await;
    let events = history["data"].as_array().unwrap().iter().map(|row| row["metadata"]["event"].clone());
    assert_eq!(events.filter(|event| event == "heartbeat").count(), 2, "{history}");
}

async fn a_registration_is_repeated_for_a_minute_only() {
    let world = world().await;
    let token = world.create().await;
    let first = Credential::of(&world.exchange(&token).await.expect(200));
    world.turn(-60 * MINUTE).await;
    let again = Credential::of(&world.exchange(&token).await.expect(200));
    assert_eq!(again.password, first.password);
    world.turn(MINUTE).await;
    let late = world.exchange(&token).await.expect(400);
    assert_eq!(late["code"], "token_unknown", "{late}");
    assert_eq!(world.site.beat(&first).await, 200, "what it was given stays");
}

/// The first use of a new credential is the end of the one before, also for a satellite that was missed in between.
async fn a_new_credential_voids_the_old_one_also_when_it_was_silent_meanwhile() {
    let world = world().await;
    let old = world.reenabled().await;
    let new = Credential::of(&world.refresh(&old).await.expect(200));
    world.is_missed().await;
    let told = world.sync(&old).await.expect(200);
    assert_eq!(told["events"], json!(["refresh_credentials"]), "the answer may have been lost");
    world.is_missed().await;
    assert_eq!(world.site.beat(&new).await, 200);
    assert_eq!(world.site.beat(&old).await, 401, "from the first use on");
    world.refresh(&old).await.expect(401);
    assert_eq!(world.site.beat(&new).await, 200);
}

async fn an_old_credential_is_exchanged_in_time_only() {
    const DAY: i64 = 24 * 60 * MINUTE;
    let world = world().await;
    let old = world.reenabled().await;
    world.turn(DAY - 60 * MINUTE).await;
    let told = world.sync(&old).await.expect(200);
    assert_eq!(told["events"], json!(["refresh_credentials"]));
    world.turn(DAY).await;
    world.sync(&old).await.expect(401);
    world.refresh(&old).await.expect(401);
    // Nor does it come back once the answer was given: without a first use in time it needs a new token.
    world.turn(0).await;
    let new = Credential::of(&world.refresh(&old).await.expect(200));
    world.sync(&old).await.expect(200);
    world.turn(DAY).await;
    world.sync(&old).await.expect(401);
    world.refresh(&old).await.expect(401);
    assert_eq!(world.site.beat(&new).await, 200);
}

/// A satellite that is revoked between the exchange and the first use of its new credential may have lost the
/// answer: with either credential it gets 403, and can return.
async fn a_satellite_revoked_during_its_exchange_is_known_by_either_credential() {
    let world = world().await;
    let act = async |verb: &str, body: Value| {
        world.site.post(&format!("/api/satellites/edge/{verb}"), body).await.expect(200)
    };
    let mut old = world.reenabled().await;
    for (mode, has_lost) in [("refresh", true), ("refresh", false), ("keep", true), ("keep", false)] {
        let case = format!("{mode}, lost: {has_lost}");
        let new = Credential::of(&world.refresh(&old).await.expect(200));
        act("revoke", json!({})).await;
        for either in [&old, &new] {
            assert_eq!(world.site.beat(either).await, 403, "{case}");
            world.refresh(either).await.expect(403);
        }
        act("reenable", json!({"mode": mode})).await;
        let (has, other) = if has_lost { (old, new) } else { (new, old) };
        let told = world.sync(&has).await.expect(200);
        old = if mode == "keep" {
            assert_eq!((&told["state"], &told["refresh"]), (&json!("online"), &Value::Null), "{case}");
            assert_eq!(world.site.beat(&other).await, 401, "{case}: it was not used");
            let again = Credential::of(&world.refresh(&has).await.expect(200));
            assert_eq!(again.password, has.password, "{case}: that is the one in force");
            has
        } else {
            assert_eq!(told["events"], json!(["refresh_credentials"]), "{case}");
            let next = Credential::of(&world.refresh(&has).await.expect(200));
            let again = Credential::of(&world.refresh(&has).await.expect(200));
            assert_eq!(again.password, next.password, "{case}: a lost answer is repeated");
            world.refresh(&other).await.expect(401);
            assert_eq!(world.site.beat(&next).await, 200, "{case}");
            assert_eq!(world.site.beat(&has).await, 401, "{case}: from the first use on");
            next
        };
        act("revoke", json!({})).await;
        act("reenable", json!({"mode": "refresh"})).await;
    }
    // The end of the exchange also holds for a satellite that is revoked after it.
    let new = Credential::of(&world.refresh(&old).await.expect(200));
    world.turn(25 * 60 * MINUTE).await;
    act("revoke", json!({})).await;
    assert_eq!(world.site.beat(&old).await, 401);
    assert_eq!(world.site.beat(&new).await, 403);
}
