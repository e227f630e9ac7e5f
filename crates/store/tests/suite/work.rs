//! Work that is due: resources to look at again, and effects to perform.

use std::time::Duration;

use jiff::Timestamp;
use wardroom_store::{Content, Effect, Error, Resource, Store};

use crate::database::Database;
use crate::sample::{at, create, id, node, to_state};

const ALL: &[&str] = &["tell", "call"];

const MINUTE: Duration = Duration::from_secs(60);

/// Times around the present, by a clock that need not agree with the database's to the second.
#[expect(clippy::disallowed_methods, reason = "what is due is judged by the real time of the database")]
fn hours(hours: i64) -> Timestamp {
    Timestamp::now() + jiff::SignedDuration::from_hours(hours)
}

async fn due(store: &Store, number: usize, due_at: Option<Timestamp>) -> Resource {
    store.commit(create(Content { due_at, ..node(number) })).await.unwrap().resource
}

pub(crate) async fn a_due_resource_is_claimed_once(database: Database) {
    let store = database.open().await;
    due(&store, 1, None).await;
    due(&store, 2, Some(hours(1))).await;
    let late = due(&store, 3, Some(hours(-1))).await;
    let later = due(&store, 4, Some(hours(-2))).await;
    let gone = Content { deleted: true, due_at: Some(hours(-3)), ..node(5) };
    store.commit(create(gone)).await.unwrap();

    assert_eq!(store.next_due("node").await.unwrap(), later.content.due_at);
    assert!(store.claim_due("other", "one", MINUTE, 9).await.unwrap().is_empty());
    let first = store.claim_due("node", "one", MINUTE, 1).await.unwrap();
    assert_eq!(first.iter().map(|(found, _)| found).collect::<Vec<_>>(), [&later]);
    assert_eq!(first[0].1.name, format!("node/{}", id(4)));
    assert_eq!(store.next_due("node").await.unwrap(), late.content.due_at);
    let second = store.claim_due("node", "two", MINUTE, 9).await.unwrap();
    assert_eq!(second.iter().map(|(found, _)| found).collect::<Vec<_>>(), [&late]);
    assert!(store.claim_due("node", "one", MINUTE, 9).await.unwrap().is_empty());
    assert_eq!(store.next_due("node").await.unwrap().unwrap().duration_since(hours(1)).as_secs(), 0);

    // A change under the lease that leaves the time alone leaves it as it is.
    let mut change = to_state(&late, "looked at");
    change.fence = Some(second[0].1.fence());
    let kept = store.commit(change).await.unwrap().resource;
    assert_eq!(kept.content.due_at, late.content.due_at);
    assert_eq!(store.get("node", &id(3)).await.unwrap(), Some(kept));

    // The lease holder sees to it, and from then on it is not due.
    let mut change = to_state(&later, "seen");
    change.after.due_at = None;
    change.fence = Some(first[0].1.fence());
    let seen = store.commit(change).await.unwrap().resource;
    assert_eq!(store.get("node", &id(4)).await.unwrap(), Some(seen));
    assert!(store.release_lease(&first[0].1).await.unwrap());
    assert!(store.claim_due("node", "one", MINUTE, 9).await.unwrap().is_empty());
}

/// Many at once, found without a lease; one that has got another due time meanwhile keeps that.
pub(crate) async fn due_resources_are_postponed_together(database: Database) {
    let store = database.open().await;
    let first = due(&store, 1, Some(hours(-2))).await;
    let second = due(&store, 2, Some(hours(-1))).await;
    due(&store, 3, Some(hours(1))).await;
    due(&store, 4, None).await;
    let gone = Content { deleted: true, due_at: Some(hours(-3)), ..node(5) };
    store.commit(create(gone)).await.unwrap();

    let found = store.due_now("node", 9).await.unwrap();
    assert_eq!(found.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), [id(1), id(2)]);
    assert_eq!(store.due_now("node", 1).await.unwrap(), found[..1]);
    assert!(store.due_now("other", 9).await.unwrap().is_empty());
    assert_eq!(Some(found[0].1), first.content.due_at);

    let mut change = to_state(&second, "seen");
    change.after.due_at = Some(hours(-4));
    store.commit(change).await.unwrap();
    let moved: Vec<_> = found.iter().map(|(id, was)| (id.clone(), *was, hours(2))).collect();
    assert_eq!(store.put_off_all("node", &moved).await.unwrap(), 1, "the second one was changed meanwhile");
    assert_eq!(store.put_off_all("node", &moved).await.unwrap(), 0);
    assert_eq!(store.put_off_all("node", &[]).await.unwrap(), 0);
    let left = store.due_now("node", 9).await.unwrap();
    assert_eq!(left.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), [id(2)]);
    let after = store.get("node", &id(1)).await.unwrap().unwrap();
    assert_eq!((after.version, &after.head), (first.version, &first.head));
}

/// A new due time is no change: neither version nor history has it.
pub(crate) async fn a_postponed_resource_is_due_later(database: Database) {
    let store = database.open().await;
    let found = due(&store, 1, Some(hours(-1))).await;
    let lease = store.claim_due("node", "one", MINUTE, 9).await.unwrap().remove(0).1;
    let later = hours(1);
    assert!(store.put_off(&lease, &found, later).await.unwrap());
    assert!(store.release_lease(&lease).await.unwrap());
    assert!(store.claim_due("node", "one", MINUTE, 9).await.unwrap().is_empty());
    let after = store.get("node", &id(1)).await.unwrap().unwrap();
    assert_eq!((after.version, &after.head), (found.version, &found.head));
    let microseconds = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
    assert_eq!(microseconds(after.content.due_at), microseconds(Some(later)), "what was kept is let go of");
    let next = store.acquire_lease(&lease.name, "two", MINUTE).await.unwrap().unwrap();
    assert!(!store.put_off(&lease, &found, hours(2)).await.unwrap(), "another holder has it");
    assert!(store.put_off(&next, &found, hours(-1)).await.unwrap());
    assert!(store.release_lease(&next).await.unwrap());
    let claimed = store.claim_due("node", "one", MINUTE, 9).await.unwrap();
    let lease = store.lease(&claimed[0].1.name).await.unwrap().unwrap();
    assert_eq!((&lease.holder, lease.epoch), (&"one".to_owned(), claimed[0].1.epoch));
    assert!(!lease.remaining.is_zero());
    assert!(store.release_lease(&lease).await.unwrap());
    assert!(store.lease(&lease.name).await.unwrap().unwrap().remaining.is_zero());
    assert_eq!(store.lease("missing").await.unwrap(), None);

    let seen = store.commit(to_state(&after, "seen")).await.unwrap().resource;
    assert!(!store.put_off(&lease, &found, hours(1)).await.unwrap(), "it was changed");
    assert_eq!(store.get("node", &id(1)).await.unwrap(), Some(seen));
}

pub(crate) async fn claims_that_lapse_go_to_the_next(database: Database) {
    let store = database.open().await;
    due(&store, 1, Some(hours(-1))).await;
    let first = store.claim_due("node", "one", Duration::from_millis(1), 9).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = store.claim_due("node", "two", MINUTE, 9).await.unwrap();
    assert_eq!(second[0].1.epoch, first[0].1.epoch + 1);
    let mut change = to_state(&first[0].0, "seen");
    change.fence = Some(first[0].1.fence());
    assert!(matches!(store.commit(change).await, Err(Error::Fenced { .. })));

    // A lease that was forgotten never has an epoch again that it had.
    assert!(store.release_lease(&second[0].1).await.unwrap());
    assert_eq!(store.sweep_leases(MINUTE).await.unwrap(), 1);
    let third = store.claim_due("node", "three", MINUTE, 9).await.unwrap();
    assert!(third[0].1.epoch > second[0].1.epoch);
}

pub(crate) async fn claims_of_many_never_meet(database: Database) {
    let store = database.open().await;
    for number in 1..=60 {
        let mut change = create(Content { due_at: Some(hours(-1)), ..node(number) });
        change.effects = vec![effect("tell")];
        store.commit(change).await.unwrap();
    }
    let workers = (0..8).map(|worker| {
        let store = store.clone();
        tokio::spawn(async move {
            let (holder, mut found) = (format!("server-{worker}"), vec![]);
            for _ in 0..12 {
                let claimed = store.claim_due("node", &holder, MINUTE, 3).await.unwrap();
                found.extend(claimed.into_iter().map(|(resource, _)| resource.content.id));
                let claimed = store.claim_effects(&holder, MINUTE, 3, ALL).await.unwrap();
                found.extend(claimed.into_iter().map(|effect| format!("effect {}", effect.resource_id)));
            }
            found
        })
    });
    let mut found = vec![];
    for worker in workers.collect::<Vec<_>>() {
        found.extend(worker.await.unwrap());
    }
    assert_eq!(found.len(), 120, "some were claimed twice, or not at all");
    assert_eq!(std::collections::BTreeSet::from_iter(found).len(), 120);
}

fn effect(name: &str) -> Effect {
    Effect { effect_type: name.to_owned(), payload: serde_json::json!({ "a": 1 }) }
}

pub(crate) async fn effects_of_one_type_take_turns(database: Database) {
    let store = database.open().await;
    let mut change = create(node(1));
    change.effects = vec![effect("tell"), effect("tell"), effect("call")];
    store.commit(change).await.unwrap();

    let types = |claimed: &[wardroom_store::ClaimedEffect]| {
        claimed.iter().map(|claimed| claimed.effect.effect_type.clone()).collect::<Vec<_>>()
    };
    let claimed = store.claim_effects("one", MINUTE, 9, ALL).await.unwrap();
    assert_eq!(types(&claimed), ["tell", "call"]);
    assert_eq!(claimed[0].attempts, 1);
    assert!(store.claim_effects("two", MINUTE, 9, ALL).await.unwrap().is_empty());

    // A failure waits for its time, and so does what comes after it.
    assert!(store.retry_effect(claimed[0].id, "one", hours(1), "no\0answer").await.unwrap());
    assert!(store.finish_effect(claimed[1].id, at(5)).await.unwrap());
    assert!(!store.retry_effect(claimed[1].id, "one", hours(1), "late").await.unwrap());
    assert!(store.claim_effects("two", MINUTE, 9, ALL).await.unwrap().is_empty());
    let progress = store.effects_of("node", &id(1)).await.unwrap();
    assert_eq!(progress.len(), 3);
    assert_eq!(progress[0].last_error.as_deref(), Some("no\u{fffd}answer"));
    assert!(progress[0].next_attempt_at.is_some() && progress[0].attempts == 1);
    assert_eq!((progress[2].done_at, progress[1].attempts), (Some(at(5)), 0));

    assert!(store.retry_effect(claimed[0].id, "one", hours(-1), "again").await.unwrap());
    let again = store.claim_effects("two", MINUTE, 9, ALL).await.unwrap();
    assert_eq!((again[0].id, again[0].attempts, again.len()), (claimed[0].id, 2, 1));
    assert!(store.finish_effect(again[0].id, at(6)).await.unwrap());
    let last = store.claim_effects("two", Duration::from_millis(1), 9, ALL).await.unwrap();
    assert_eq!(types(&last), ["tell"]);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let taken_over = store.claim_effects("three", MINUTE, 9, ALL).await.unwrap();
    assert_eq!((taken_over[0].id, taken_over[0].attempts), (last[0].id, 2), "its worker is taken for dead");
    assert!(!store.renew_effect(last[0].id, "two", MINUTE).await.unwrap(), "it is not its effect any more");
    assert!(!store.retry_effect(last[0].id, "two", hours(-1), "late").await.unwrap(), "nor to be let go of");
    assert!(store.renew_effect(last[0].id, "three", Duration::from_millis(1)).await.unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let again = store.claim_effects("three", Duration::from_millis(1), 9, ALL).await.unwrap();
    assert_eq!(again.len(), 1, "a claim holds for as long as it was renewed for");
    assert!(store.renew_effect(last[0].id, "three", MINUTE).await.unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(store.claim_effects("two", MINUTE, 9, ALL).await.unwrap().is_empty(), "its holder continues");
    assert!(store.finish_effect(last[0].id, at(7)).await.unwrap());
    let done = store.effects_of("node", &id(1)).await.unwrap();
    assert_eq!(
        done.iter().map(|effect| effect.done_at).collect::<Vec<_>>(),
        [Some(at(7)), Some(at(5))].into_iter().collect::<Vec<_>>()
    );
    assert_eq!(store.effects_of("node", "no\0body").await.unwrap(), []);
}

/// A holder that ends releases its claims, and one that knows to be alone releases all.
pub(crate) async fn claims_end_with_their_holder(database: Database) {
    let store = database.open().await;
    let mut change = create(node(1));
    change.effects = vec![effect("tell"), effect("call")];
    store.commit(change).await.unwrap();
    let claim = async |holder: &str, types: &[&str]| {
        store.claim_effects(holder, MINUTE, 9, types).await.unwrap().len()
    };
    let claimed = async || {
        let progress = store.effects_of("node", &id(1)).await.unwrap();
        progress.iter().map(|effect| effect.claimed_until > Some(hours(-1))).collect::<Vec<_>>()
    };
    assert_eq!((claim("one", &["tell"]).await, claim("two", &["call"]).await), (1, 1));
    assert_eq!(claimed().await, [true, true]);
    assert_eq!(store.release_effects("one").await.unwrap(), 1);
    assert_eq!(claimed().await, [false, true]);
    assert_eq!(claim("three", ALL).await, 1, "the other one is not its own");
    assert_eq!(store.release_all_effects().await.unwrap(), 2);
    assert_eq!((claimed().await, claim("three", ALL).await), (vec![false, false], 2));
}

/// A failed effect waits for its time, unless the same is asked for again: then it may work, and the new
/// request shall not wait either.
pub(crate) async fn a_repeated_effect_is_tried_at_once(database: Database) {
    let store = database.open().await;
    let ask = async |number: usize, name: &str| {
        let content = node(number);
        let before = store.get("node", &content.id).await.unwrap();
        let mut change = match &before {
            Some(before) => to_state(before, if before.content.state == "a" { "b" } else { "a" }),
            None => create(content),
        };
        change.effects = vec![effect(name)];
        store.commit(change).await.unwrap();
    };
    for number in [1, 2] {
        ask(number, "tell").await;
    }
    let claim = async || store.claim_effects("one", MINUTE, 9, ALL).await.unwrap();
    let first = claim().await;
    assert_eq!(first.len(), 2);
    for claimed in &first {
        assert!(store.retry_effect(claimed.id, "one", hours(1), "no answer").await.unwrap());
    }
    assert!(claim().await.is_empty());
    ask(1, "call").await;
    let other = claim().await;
    assert_eq!((other.len(), &*other[0].effect.effect_type), (1, "call"), "that is something else");
    ask(1, "tell").await;
    let again = claim().await;
    assert_eq!((again.len(), again[0].id, again[0].attempts), (1, first[0].id, 2), "and of no other");
    let progress = store.effects_of("node", &id(1)).await.unwrap();
    assert_eq!(progress[0].last_error.as_deref(), Some("no answer"), "what went wrong is still told");
    // Also when it is asked for while it is tried: then that may have come too late for it.
    ask(1, "tell").await;
    assert!(store.retry_effect(again[0].id, "one", hours(1), "no answer").await.unwrap());
    let again = claim().await;
    assert_eq!((again.len(), again[0].id, again[0].attempts), (1, first[0].id, 3));
    // It is tried once: what fails again waits again.
    assert!(store.retry_effect(again[0].id, "one", hours(1), "no answer").await.unwrap());
    assert!(claim().await.is_empty());
}

/// A worker takes on what it can do.
pub(crate) async fn effects_are_claimed_by_their_type(database: Database) {
    let store = database.open().await;
    let mut change = create(node(1));
    change.effects = vec![effect("tell"), effect("call")];
    store.commit(change).await.unwrap();
    assert!(store.claim_effects("one", MINUTE, 9, &[]).await.unwrap().is_empty());
    assert!(store.claim_effects("one", MINUTE, 9, &["te_l", "other"]).await.unwrap().is_empty());
    let claimed = store.claim_effects("one", MINUTE, 9, &["other", "call"]).await.unwrap();
    assert_eq!(claimed.iter().map(|claimed| &*claimed.effect.effect_type).collect::<Vec<_>>(), ["call"]);
    let open = store.open_effects().await.unwrap();
    let numbers: Vec<_> = open.iter().map(|open| (&*open.effect_type, open.open, open.failing)).collect();
    assert_eq!(numbers, [("call", 1, 0), ("tell", 1, 0)]);
    assert!(store.retry_effect(claimed[0].id, "one", hours(1), "no answer").await.unwrap());
    assert_eq!(store.open_effects().await.unwrap()[0].failing, 1);
    assert!(store.finish_effect(claimed[0].id, at(1)).await.unwrap());
    assert_eq!(store.open_effects().await.unwrap().len(), 1);
}

/// What was done long ago goes, but for the last of each type; what is open stays.
pub(crate) async fn effects_that_are_done_are_forgotten_later(database: Database) {
    let store = database.open().await;
    for number in 1..=3 {
        let mut change = create(node(number));
        change.effects = vec![effect("tell"), effect("tell"), effect("tell"), effect("call")];
        store.commit(change).await.unwrap();
    }
    let all = store.pending_effects(0, 100).await.unwrap();
    let mine = |number: usize| all.iter().filter(move |effect| effect.resource_id == id(number));
    // The first resource: all done, the last of them lately. The second: the last one is open. The third: all open.
    for (effect, time) in mine(1).zip([5, 6, 50, 7]) {
        store.finish_effect(effect.id, at(time)).await.unwrap();
    }
    for effect in mine(2).take(2) {
        store.finish_effect(effect.id, at(5)).await.unwrap();
    }
    let sweep = async |before| {
        let (mut after, mut forgotten) = (0, 0);
        while let Some((next, count)) = store.sweep_effects(after, 2, at(before)).await.unwrap() {
            (after, forgotten) = (next, forgotten + count);
        }
        forgotten
    };
    for (before, forgotten) in [(4, 0), (6, 3), (100, 0)] {
        assert_eq!(sweep(before).await, forgotten, "before {before}");
        let mut shown = Vec::new();
        for number in 1..=3 {
            shown.push(store.effects_of("node", &id(number)).await.unwrap().len());
        }
        assert_eq!(shown, [2, 3, 4]);
    }
}
