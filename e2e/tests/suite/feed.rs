//! The feed: every change once and in order, also across cuts, servers and transactions that overlap.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Api, Backend, Site, at_once, chain::all_rows, http::Sent, node_in, on_both, wait_for};

on_both! {
    a_stream_resumes_without_gap_or_duplicate,
    a_long_poll_waits_for_the_next_change,
    pages_of_the_feed_join,
    silence_is_broken_by_comments,
    a_stream_can_be_resumed_before_its_first_event,
    a_cursor_of_another_feed_is_refused,
    a_scope_covers_the_feed,
    many_streams_cost_no_more_than_one,
}

fn a_stream_resumes_without_gap_or_duplicate(on: Backend) {
    let site = Site::start(on);
    let ids: Vec<_> = (0..6).map(|number| node_in(&site.admin(), "active", number)).collect();
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| read_with_cuts(&site, 6 * 5 + 6 * 30));
        at_once(ids.len(), |index| {
            for round in 0..30 {
                let state = ["migrating", "active"][round % 2];
                site.admin_at(index + round).to_state(&ids[index], state).expect(200);
            }
        });
        reader.join().unwrap()
    });

    let cursors: BTreeSet<_> = seen.iter().map(|row| row["cursor"].as_str().unwrap()).collect();
    assert_eq!(cursors.len(), seen.len(), "a change came twice");
    let mut sequences: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in &seen {
        sequences.entry(row["resource_id"].as_str().unwrap()).or_default().push(row["sequence"].as_i64());
    }
    let all = all_rows(&site.admin());
    for id in &ids {
        let expected: Vec<_> =
            all[&("node".to_owned(), id.clone())].iter().map(|row| row["sequence"].as_i64()).collect();
        assert_eq!(sequences[&**id], expected, "{id}: a gap, or out of order");
    }
}

/// Follows the feed from its start and cuts the stream all the time, going on at the other server.
fn read_with_cuts(site: &Site, nodes_rows: usize) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    let mut last = "start".to_owned();
    for cut in 0..1000 {
        let mut events = site.admin_at(cut).with("last-event-id", &last).follow("/api/v1/events");
        for _ in 0..17 {
            let (id, row) = events.event();
            assert_eq!(row["cursor"], *id);
            last = id;
            seen.push(row);
            if seen.iter().filter(|row| row["kind"] == "node").count() == nodes_rows {
                return seen;
            }
        }
    }
    panic!("{} rows after many cuts", seen.len());
}

fn a_long_poll_waits_for_the_next_change(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "active", 1);
    let tail = settled_tail(&site);
    let empty = site.admin().get(&format!("/api/v1/events?wait=0&continue={tail}")).expect(200);
    assert_eq!((&empty["data"], &empty["continue"]), (&json!([]), &json!(tail)));

    thread::scope(|scope| {
        let poll = scope.spawn(|| site.admin_at(1).get(&format!("/api/v1/events?wait=30&continue={tail}")));
        site.admin_at(0).to_state(&id, "migrating").expect(200);
        let page = poll.join().unwrap().expect(200);
        assert_eq!(page["data"][0]["resource_id"], *id);
        assert_eq!(page["data"][0]["to_state"], "migrating");
    });
}

/// The end of the feed once everything acknowledged so far is in it.
fn settled_tail(site: &Site) -> String {
    let newest = site.admin().get("/api/v1/history?limit=1").expect(200)["data"][0]["cursor"].clone();
    wait_for("the feed to catch up", || {
        let page = site.admin().get("/api/v1/events?wait=0&continue=start&limit=1000").expect(200);
        page["continue"].as_str().filter(|next| *next == newest).map(str::to_owned)
    })
}

fn pages_of_the_feed_join(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "active", 1);
    settled_tail(&site);
    let (mut after, mut sequences) = ("start".to_owned(), Vec::new());
    for page in 0..20 {
        let path = format!("/api/v1/events?wait=0&limit=2&continue={after}");
        let rows = site.admin_at(page).get(&path).expect(200);
        assert!(rows["data"].as_array().unwrap().len() <= 2);
        for row in rows["data"].as_array().unwrap().iter().filter(|row| row["resource_id"] == *id) {
            sequences.push(row["sequence"].as_i64().unwrap());
        }
        after = rows["continue"].as_str().unwrap().to_owned();
    }
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
}

fn silence_is_broken_by_comments(on: Backend) {
    let site = Site::start(on);
    let mut events = site.admin().follow("/api/v1/events");
    for _ in 0..10 {
        match events.next() {
            Sent::Comment => return,
            // The end of the start-up may still be on its way.
            Sent::Event { .. } | Sent::Place { .. } => {}
            Sent::End => break,
        }
    }
    panic!("no comment");
}

/// A client that follows from now on and is cut before anything happens misses nothing when it comes back.
fn a_stream_can_be_resumed_before_its_first_event(on: Backend) {
    let site = Site::start(on);
    let tail = settled_tail(&site);
    let place = |headers: &Api| match headers.follow("/api/v1/events").next() {
        Sent::Place { id } => id,
        other @ (Sent::Event { .. } | Sent::Comment | Sent::End) => panic!("no place: {other:?}"),
    };
    let id = place(&site.admin_at(0));
    assert_eq!(id, tail);
    let node = node_in(&site.admin(), "discovered", 1);
    let again = site.admin_at(1).with("last-event-id", &id);
    assert_eq!(place(&again), id, "who resumes is told the same place");
    let (_, row) = again.follow("/api/v1/events").event();
    assert_eq!((&row["resource_id"], &row["type"]), (&json!(node), &json!("registered")));
    let start = place(&site.admin_at(0).with("last-event-id", "start"));
    let all = site.admin_at(1).with("last-event-id", &start).follow("/api/v1/events").event().1;
    assert_eq!(all["sequence"], 1);
}

fn a_cursor_of_another_feed_is_refused(on: Backend) {
    let site = Site::start(on);
    let tail = settled_tail(&site);
    let (cut, changed) = (&tail[..tail.len() - 1], tail.replacen('.', ".1", 1));
    for cursor in ["0", "nonsense", "abc.1.1", "-1", "start.1.1", "..", "1.zz.1", "", cut, &changed] {
        let reply = site.admin().get(&format!("/api/v1/events?wait=0&continue={cursor}"));
        assert_eq!(reply.wrong_fields(), ["continue"], "{cursor}");
        assert!(reply.text().contains("start again without it"), "{}", reply.text());
        // A stream that went on from now on instead would have a gap.
        for path in ["/api/v1/events", "/api/v1/events?wait=0&continue=start"] {
            let reply = site.admin().with("last-event-id", cursor).get(path);
            assert_eq!(reply.wrong_fields(), ["Last-Event-ID"], "{cursor}");
        }
    }
    assert_eq!(site.admin().get("/api/v1/events?wait=0&continue=%00").wrong_fields(), ["continue"]);
    let reply = site.admin().with("last-event-id", "ü").get("/api/v1/events");
    assert_eq!(reply.wrong_fields(), ["Last-Event-ID"]);
}

fn a_scope_covers_the_feed(on: Backend) {
    let site = Site::start(on);
    node_in(&site.admin(), "active", 1);
    settled_tail(&site);
    let scoped = |kinds: &[&str]| {
        site.new_token(&json!({"name": kinds.join(" "), "role": "auditor", "kinds": kinds})).1
    };
    let kinds = |api: &Api, path: &str| -> BTreeSet<String> {
        let rows = api.get(path).expect(200);
        rows["data"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
    };
    let (of_nodes, of_groups) = (scoped(&["node"]), scoped(&["group"]));
    for path in ["/api/v1/events?wait=0&continue=start", "/api/v1/history"] {
        assert_eq!(kinds(&site.caller(0, Some(&of_nodes)), path), BTreeSet::from(["node".to_owned()]));
        assert_eq!(kinds(&site.caller(0, Some(&of_groups)), path), BTreeSet::new());
    }
}

/// The database is read once for all followers, not once for each.
fn many_streams_cost_no_more_than_one(on: Backend) {
    const STREAMS: usize = 40;
    const CHANGES: usize = 20;
    let site = Site::start(on);
    let api = site.admin_at(0);
    let id = node_in(&api, "active", 1);
    let tail = settled_tail(&site);
    let follow = || api.with("last-event-id", &tail).follow("/api/v1/events");
    let mut streams: Vec<_> = (0..STREAMS).map(|_| follow()).collect();
    // Each has joined the others when it has shown one.
    let mut change = |round: usize| {
        api.to_state(&id, ["migrating", "active"][round % 2]).expect(200);
        for events in &mut streams {
            while events.event().1["resource_id"] != *id {}
        }
    };
    change(0);
    let before = api.number("wardroom_feed_reads_total");
    (1..=CHANGES).for_each(&mut change);
    let reads = api.number("wardroom_feed_reads_total") - before;
    assert!(reads >= CHANGES as f64, "{reads} reads for {CHANGES} changes");
    assert!(reads < (STREAMS * CHANGES / 2) as f64, "{reads} reads for {CHANGES} changes");
    assert_eq!(api.number("wardroom_feed_followers"), STREAMS as f64);
    drop(streams);
    wait_for("the streams to be gone", || (api.number("wardroom_feed_followers") == 0.0).then_some(()));
}

/// A transaction that began first may commit last. A reader that ran ahead of it would never see its change.
#[test]
fn a_transaction_that_commits_late_is_not_skipped() {
    let site = Site::start(Backend::Postgres);
    let slow = node_in(&site.admin(), "active", 1);
    let fast = node_in(&site.admin(), "active", 2);
    let tail = settled_tail(&site);
    let mut events = site.admin_at(1).with("last-event-id", &tail).follow("/api/v1/events");
    thread::scope(|scope| {
        let lock = format!("SELECT 1 FROM resources WHERE kind = 'node' AND id = '{slow}' FOR UPDATE");
        let waiting = site.database.hold(&lock, || {
            let waiting = scope.spawn(|| site.admin_at(0).to_state(&slow, "migrating"));
            wait_for("the move to wait for the lock", || site.database.waits().then_some(()));
            for state in ["migrating", "active", "migrating"] {
                site.admin_at(1).to_state(&fast, state).expect(200);
            }
            // Time for a reader that would run ahead.
            thread::sleep(std::time::Duration::from_millis(600));
            waiting
        });
        waiting.join().unwrap().expect(200);
    });
    let mut seen: Vec<_> = (0..4).map(|_| events.event().1["resource_id"].clone()).collect();
    seen.sort_by_key(ToString::to_string);
    let mut expected = [json!(slow), json!(fast), json!(fast), json!(fast)];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(seen, expected);
}
