//! Time in which the server could not listen does not count as silence, and dead members are found.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use wardroom_core::liveness::{Cause, Standing};
use wardroom_store::Seen;

use super::site::{INTERVAL, KIND, Site, beat};
use crate::platform::{bare::Lines, liveness::incident};

const HOUR: i64 = 3600;

#[tokio::test]
async fn one_dead_among_many_is_found_in_time() {
    let mut site = Site::settled().await;
    let mut all = site.satellites(100, Some("a")).await;
    let dead = all.pop().unwrap();
    site.pass_beating(3 * INTERVAL - 1, &all).await;
    assert_eq!(site.get(&dead).await.content.state, "online", "its rule allows three beats");
    site.pass_beating(3, &all).await;
    assert_eq!(site.get(&dead).await.content.state, "stale", "found within the rule and two seconds");
    assert_eq!(site.stale(&all).await, 0);
    assert_eq!(site.incidents().await, [], "one loss is no incident");

    let row = site.newest_row(KIND, &dead).await;
    assert_eq!((row.from_state.as_deref(), row.to_state.as_str()), (Some("online"), "stale"));
    assert_eq!(row.entry.triggered_by, "system");
    assert!(site.app.liveness.find(KIND, &dead).is_none(), "it is not watched any more");
    assert!(site.app.liveness.last_seen(KIND, &dead).is_some(), "when it was last heard stays known");
}

#[tokio::test]
async fn a_pause_of_the_process_does_not_count_as_silence() {
    let mut site = Site::settled().await;
    let mut all = site.satellites(30, None).await;
    let dead = all.pop().unwrap();
    site.pass_beating(40, &all).await;
    for pause in [60, HOUR] {
        site.hand.pass(SignedDuration::from_secs(pause));
        site.tick().await;
        site.pass(INTERVAL - 1, |_, _| {}).await;
        assert_eq!(site.stale(&all).await, 0, "they could not be heard for {pause} s");
        beat(&site.app, &all);
        site.pass_beating(5, &all).await;
    }
    assert_eq!(site.incidents().await, []);
    site.pass_beating(600, &all).await;
    assert_eq!(site.stale(&all).await, 0);
    assert_eq!(site.stale(&[dead]).await, 1, "the dead one was found although there were pauses");
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_makes_no_member_stale() {
    let mut site = Site::settled().await;
    let all = site.satellites(30, None).await;
    site.pass_beating(60, &all).await;
    for ahead in [HOUR, -HOUR, 0] {
        site.hand.set_wall(SignedDuration::from_secs(ahead));
        site.pass_beating(200, &all).await;
        assert_eq!(site.stale(&all).await, 0, "{ahead}");
        let periods = site.app.liveness.judge_state().listening.periods().to_vec();
        assert!(periods.iter().any(|period| period.cause == Cause::ClockJump), "{periods:?}");
        let seen = site.app.liveness.last_seen(KIND, &all[0]).unwrap();
        let age = site.app.now().duration_since(seen).as_secs();
        assert!((0..=INTERVAL).contains(&age), "shown in the time of today's clock: {age}");
    }
    assert_eq!(site.incidents().await, []);
}

#[tokio::test]
async fn after_a_long_stop_every_member_has_time_to_return() {
    let site = Site::settled().await;
    let all = site.satellites(40, None).await;
    let ids = all.clone();
    let mut site = site.restart().await;
    // Longer than every threshold.
    let seen = |id: &String| Seen { id: id.as_str().into(), age: Duration::from_secs(36_000), every: 30 };
    site.app.store.note_seen(KIND, ids.iter().map(seen).collect()).await.unwrap();
    let mut site2 = site.restart().await;
    site2.pass(290, |_, _| {}).await;
    assert_eq!(site2.stale(&ids).await, 0, "within the grace no member is judged");
    let (back, gone) = ids.split_at(39);
    beat(&site2.app, back);
    site2.pass_beating(120, back).await;
    assert_eq!(site2.stale(back).await, 0);
    assert_eq!(site2.stale(gone).await, 1);
    site = site2.restart().await;
    assert!(
        site.app.liveness.last_seen(KIND, &ids[39]).is_some(),
        "a stale one keeps when it was last heard"
    );
}

#[tokio::test]
async fn the_loss_of_a_zone_is_one_incident_and_stale_a_little_later() {
    let mut site = Site::settled().await;
    let (lost, well) = (site.satellites(40, Some("a")).await, site.satellites(60, Some("b")).await);
    site.pass_beating(95, &well).await;
    assert_eq!(site.stale(&lost).await, 0, "most of the zone fell silent together: held");
    let held = || vec![("holding".to_owned(), Some("a".to_owned()))];
    assert_eq!(site.incidents().await, held());
    let silence = site.app.liveness.standing(KIND, &lost[0]).unwrap();
    assert_eq!(silence.standing, Standing::Suspected);
    assert!(silence.to_string().contains("zone \"a\""), "{silence}");
    let id = site.app.liveness.incident_of(KIND, &lost[0]).unwrap();

    site.pass_beating(500, &well).await;
    assert_eq!(
        (site.stale(&lost).await, site.incidents().await),
        (0, held()),
        "the hold is bounded, not over"
    );
    site.pass_beating(120, &well).await;
    assert_eq!(site.stale(&lost).await, 40, "they did not come back");
    assert_eq!(site.stale(&well).await, 0);
    site.pass_beating(3, &well).await;
    assert_eq!(site.incidents().await, [("ended".to_owned(), Some("a".to_owned()))]);
    let rows = site.app.store.history(incident::KIND, &id, wardroom_store::Rows::All, 10, 0).await;
    let states: Vec<_> = rows.unwrap().0.into_iter().rev().map(|row| row.to_state).collect();
    assert_eq!(states, ["holding", "releasing", "ended"]);
    let ended = site.app.store.get(incident::KIND, &id).await.unwrap().unwrap();
    let why = ended.content.document.read::<incident::Document>().unwrap().why;
    assert_eq!(why, "It is over: 40 members went stale, and no other one is watched.");
}

/// What an alert goes by while members are held.
#[tokio::test]
async fn a_hold_shows_in_the_metrics() {
    let mut site = Site::settled().await;
    let (lost, well) = (site.satellites(40, Some("a")).await, site.satellites(60, Some("b")).await);
    let numbers = async |site: &Site| {
        let shown = crate::platform::http::metrics::metrics(axum::extract::State(site.app.clone())).await;
        let shown = axum::body::to_bytes(shown.into_body(), usize::MAX).await.unwrap();
        let shown = String::from_utf8(shown.to_vec()).unwrap();
        ["holds", "suspected", "due", "silent"].map(|name| {
            let name = format!("wardroom_liveness_{name} ");
            let number = shown.lines().find_map(|line| line.strip_prefix(&name));
            number.unwrap_or_else(|| panic!("no {name}in {shown}")).parse::<u32>().unwrap()
        })
    };
    assert_eq!(numbers(&site).await, [0, 0, 0, 0]);
    site.pass_beating(95, &well).await;
    assert_eq!(numbers(&site).await, [1, 40, 40, 40]);
    beat(&site.app, &lost);
    site.pass_beating(5, &well).await;
    assert_eq!(numbers(&site).await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn the_silence_of_all_is_one_incident_of_the_fleet() {
    let mut site = Site::settled().await;
    let mut all = Vec::new();
    for zone in ["a", "b", "c", "d"] {
        all.extend(site.satellites(20, Some(zone)).await);
    }
    let (lines, _guard) = Lines::listen();
    site.pass(120, |_, _| {}).await;
    assert_eq!(site.stale(&all).await, 0);
    assert_eq!(site.incidents().await, [("holding".to_owned(), None)]);
    // The log names the incident and its cause once.
    let incident = site.app.liveness.incident_of(KIND, &all[0]).unwrap();
    let told = |message: &str| {
        let told = lines.with(message);
        let [line] = &*told else { panic!("not told once: {told:?}") };
        let fields = &line["fields"];
        assert_eq!((&fields["incident"], &fields["of"]), (&json!(incident), &json!("the fleet")), "{line}");
        (line["level"].as_str().unwrap().to_owned(), fields["why"].as_str().unwrap().to_owned())
    };
    let (level, why) = told("members fell silent together");
    assert!(level == "WARN" && why.contains("80 of 80"), "{level}: {why}");
    assert_eq!(lines.with("an incident ended").len(), 0);
    // It was us, or a network between: they all come back.
    beat(&site.app, &all);
    site.pass_beating(5, &all).await;
    assert_eq!(site.incidents().await, [("ended".to_owned(), None)]);
    let (level, why) = told("an incident ended");
    assert!(level == "INFO" && !why.is_empty(), "{level}: {why}");
    told("members fell silent together");
    assert_eq!(site.stale(&all).await, 0);
}

#[tokio::test]
async fn a_server_that_cannot_write_judges_no_member() {
    let mut site = Site::settled().await;
    let all = site.satellites(5, None).await;
    site.app.liveness.status().flush_failed = true;
    site.pass(600, |_, _| {}).await;
    assert_eq!(site.stale(&all).await, 0);
    assert_eq!(site.app.liveness.deaf(), Some(Cause::Database));
    site.app.liveness.status().flush_failed = false;
    site.pass(100, |_, _| {}).await;
    assert_eq!(site.stale(&all).await, 0, "and then they have time to return");
    site.pass(400, |_, _| {}).await;
    assert_eq!(site.stale(&all).await, 5);
}

#[tokio::test]
async fn a_sweeper_goes_on_with_the_incident_it_finds() {
    let mut site = Site::settled().await;
    let all = site.satellites(20, Some("a")).await;
    site.pass(100, |_, _| {}).await;
    assert_eq!(site.incidents().await.len(), 1);
    let mut site = site.restart().await;
    site.pass(100, |_, _| {}).await;
    let why = async |site: &Site| {
        let blockers = crate::platform::liveness::view::blockers(&site.app, KIND, &all[0]).await.unwrap();
        blockers.into_iter().map(|blocker| blocker.what.into_owned()).collect::<String>()
    };
    let spared = why(&site).await;
    assert!(spared.contains("did not listen") && spared.contains("Incident"), "{spared}");
    site.pass(320, |_, _| {}).await;
    assert_eq!(site.incidents().await.len(), 1, "the same one, not a second");
    let open = incident::open(&site.app, &Some("a".to_owned())).await.unwrap().unwrap();
    let row = site.newest_row(incident::KIND, &open.content.id).await;
    assert_eq!(row.entry.entry_type, "resumed");
    let told: incident::Document = open.content.document.read().unwrap();
    let held = site.app.liveness.standing(KIND, &all[0]).unwrap().held.unwrap();
    let apart = told.held_until.unwrap().duration_since(held.until).abs();
    assert!(
        apart < SignedDuration::from_secs(5),
        "it ends when the guard of this server says: {told:?} {held:?}"
    );
    assert!(why(&site).await.contains("held by incident"));
    assert_eq!(site.stale(&all).await, 0);
    beat(&site.app, &all);
    site.pass_beating(5, &all).await;
    assert_eq!(site.incidents().await[0].0, "ended");
}

/// The fleet is shown as of now also while no member is late and no guard is asked.
#[tokio::test]
async fn the_guard_of_the_fleet_counts_every_watched_member() {
    let mut site = Site::settled().await;
    let all = site.satellites(5, None).await;
    site.pass_beating(3, &all).await;
    let fleet = site.app.liveness.view().fleet;
    assert_eq!((fleet.watched, fleet.silent, fleet.due), (5, 0, 0));
}

/// A server with two listeners is deaf while members cannot connect to one of them.
#[tokio::test]
async fn one_listener_that_accepts_does_not_speak_for_another() {
    let site = Site::settled().await;
    let live = &site.app.liveness;
    live.listener_accepts(false);
    live.listener_accepts(false);
    assert_eq!(live.deaf(), Some(Cause::Listener));
    live.listener_accepts(true);
    assert_eq!(live.deaf(), Some(Cause::Listener), "the other one refuses");
    live.listener_accepts(true);
    assert_eq!(live.deaf(), None);
}
