//! Many at once: one token has one winner, a revocation bites on every server, and beats are not paid for by others.

use std::{
    io::Write as _,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use serde_json::json;

use crate::support::{
    Backend, Reply, Site, at_once,
    line::Line,
    on_both,
    satellite::{Robot, create, get, online, reenable, revoke, ztr},
    wait_for, wait_long_for,
};

on_both! {
    a_token_has_one_winner,
    a_revocation_bites_while_satellites_beat,
    a_revocation_bites_within_a_request,
    a_whole_site_beats_beside_a_guesser,
}

/// A transaction that is left open anywhere holds the feed back; a revocation does not wait for it.
#[test]
fn a_revocation_bites_while_the_feed_is_held_back() {
    let site = Site::start(Backend::Postgres);
    let robot = online(&site, "edge");
    for index in 0..2 {
        robot.beat(&site, index).expect(200);
    }
    site.database.hold("INSERT INTO meta (key, value) VALUES ('held', 'back')", || {
        for round in 0..3 {
            revoke(&site, "edge");
            for index in 0..4 {
                robot.beat(&site, round + index).problem(403);
            }
            reenable(&site, "edge", "keep");
            wait_for("the way back", || (robot.beat(&site, round).status == 200).then_some(()));
        }
    });
}

/// The first use of a new credential voids the old one on every server, although the feed is held back.
#[test]
fn the_credential_before_is_void_while_the_feed_is_held_back() {
    let site = Site::start(Backend::Postgres);
    let old = online(&site, "edge");
    revoke(&site, "edge");
    reenable(&site, "edge", "refresh");
    let new = wait_for("the refresh", || Some(old.refresh(&site, 0)).filter(|reply| reply.status == 200));
    let new = Robot::of(&new);
    for index in 0..2 {
        let told = old.beat(&site, index).expect(200);
        assert_eq!(told["events"], json!(["refresh_credentials"]), "until the new one is used");
    }
    site.database.hold("INSERT INTO meta (key, value) VALUES ('held', 'back')", || {
        old.beat(&site, 1).expect(200);
        new.beat(&site, 0).expect(200);
        for index in 0..4 {
            old.beat(&site, index).problem(401);
            old.refresh(&site, index).problem(401);
            new.beat(&site, index).expect(200);
        }
    });
}

/// The database has performed a request, but its answer is delayed: meanwhile another server
/// acknowledges a revocation.
#[test]
fn a_revocation_bites_before_a_credential_is_handed_out() {
    let mut site = Site::start(Backend::Postgres);
    let (line, over) = Line::to(site.database.url().unwrap());
    site.restart_over(1, &over);
    let token = create(&site, "edge");
    let is = |condition: &str| site.database.count(&format!("SELECT 1 FROM {condition}")) > 0;
    thread::scope(|scope| {
        let row = "SELECT 1 FROM resources WHERE kind = 'satellite' FOR UPDATE";
        let registering = site.database.hold(row, || {
            let registering = scope.spawn(|| ztr(&site, 1, &token));
            wait_for("the registration to be decided", || site.database.waits().then_some(()));
            line.hold_answers();
            registering
        });
        wait_for("its commit", || {
            is("resources WHERE kind = 'satellite' AND state = 'online'").then_some(())
        });
        site.admin_at(0).post("/api/satellites/edge/revoke", &json!({})).expect(200);
        line.let_go();
        registering.join().unwrap().problem(400);
    });
}

/// A server reads from a slow database for its answer, or to identify the caller: another one acknowledges a revocation
/// before it has read all.
#[test]
fn a_revocation_bites_while_the_database_is_slow() {
    let mut site = Site::start(Backend::Postgres);
    let (line, over) = Line::to(site.database.url().unwrap());
    site.restart_over(1, &over);
    let robot = online(&site, "edge");
    let state = || robot.at(&site, 1).get("/v2/satellite/satellite-state/edge/state/manifests/latest");
    type Call<'a> = (&'static str, &'a (dyn Fn() -> Reply + Sync));
    let calls: [Call<'_>; 2] = [("beat", &|| robot.beat(&site, 1)), ("state", &state)];
    for (what, call) in calls {
        for is_remembered in [true, false] {
            wait_for("the way back", || (robot.beat(&site, 0).status == 200).then_some(()));
            wait_for(what, || (call().status == 200).then_some(()));
            line.hold_answers();
            // An entry that was not confirmed for a second is looked up.
            thread::sleep(Duration::from_millis(if is_remembered { 0 } else { 1100 }));
            let reply = thread::scope(|scope| {
                let asked = scope.spawn(call);
                thread::sleep(Duration::from_millis(100));
                site.admin_at(0).post("/api/satellites/edge/revoke", &json!({})).expect(200);
                line.let_go();
                asked.join().unwrap()
            });
            // Beats answered from memory came before the answer to the revocation.
            if !(what == "beat" && is_remembered) {
                assert!(matches!(reply.status, 403 | 503), "{what}: {}", reply.text());
            }
            reenable(&site, "edge", "keep");
        }
    }
}

/// A wrong secret of a satellite that is there is looked up, because another server may have issued it. However many
/// of them wait for an answer of the database, who has the right one beats and reads its state.
#[test]
fn guesses_at_a_satellite_delay_no_other() {
    let site = Site::start(Backend::Postgres);
    let robot = online(&site, "edge");
    let wrong = Robot { username: robot.username.clone(), password: "guessed".to_owned() };
    let state = "/v2/satellite/satellite-state/edge/state/manifests/latest";
    for index in 0..2 {
        wait_for("its state", || (robot.at(&site, index).get(state).status == 200).then_some(()));
        robot.beat(&site, index).expect(200);
    }
    thread::scope(|scope| {
        let guesses: Vec<_> = site.database.hold("LOCK TABLE resource_keys IN ACCESS EXCLUSIVE MODE", || {
            let guess = |index| {
                scope.spawn({
                    let (site, wrong) = (&site, &wrong);
                    move || wrong.beat(site, index)
                })
            };
            let guesses = (0..40).map(guess).collect();
            wait_for("a guess to be looked up", || site.database.waits().then_some(()));
            // Nothing is remembered for so long without being confirmed.
            thread::sleep(Duration::from_millis(1500));
            for index in 0..10 {
                robot.beat(&site, index).expect(200);
                let reply = robot.at(&site, index).get(state);
                assert_eq!(reply.status, 200, "{}", reply.text());
            }
            guesses
        });
        for guess in guesses {
            let reply = guess.join().unwrap();
            assert!(matches!(reply.status, 401 | 429), "{}", reply.text());
        }
    });
}

/// Clients that show one token at once, and how often.
const CLIENTS: usize = 200;
const ROUNDS: usize = 100;

/// Connections over which a satellite beats, on each server in turn.
const BEATING: usize = 20;

fn a_token_has_one_winner(on: Backend) {
    let site = Site::start(on);
    for round in 0..ROUNDS {
        let token = create(&site, &format!("edge-{round}"));
        let replies = at_once(CLIENTS, |index| ztr(&site, index, &token));
        let won: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
        assert_eq!(won.len(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 200 | 400)), "{statuses:?}");
        // The credential of the winner works.
        Robot::of(won[0]).beat(&site, round).expect(200);
        let id = get(&site, &format!("edge-{round}"))["id"].as_str().unwrap().to_owned();
        let rows = site.admin().get(&format!("/api/v1/history?kind=satellite&id={id}")).expect(200);
        assert_eq!(rows["data"].as_array().unwrap().len(), 2, "{rows}");
    }
}

fn a_revocation_bites_while_satellites_beat(on: Backend) {
    let site = Site::start(on);
    for (round, verb) in ["revoke", "delete", "revoke", "reissue"].into_iter().enumerate() {
        let name = format!("edge-{round}");
        let robot = online(&site, &name);
        let (is_denied, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _end = End(&is_over);
            for index in 0..BEATING {
                let (site, robot) = (&site, &robot);
                let (is_denied, is_over, served, refused) = (&is_denied, &is_over, &served, &refused);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        let was_denied = is_denied.load(Ordering::Acquire);
                        let reply = robot.beat(site, index);
                        if was_denied {
                            assert!(matches!(reply.status, 401 | 403), "{verb}: {}", reply.text());
                            refused.fetch_add(1, Ordering::Relaxed);
                        } else if reply.status == 200 {
                            served.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            wait_for("beats", || (served.load(Ordering::Relaxed) > 2 * BEATING).then_some(()));
            match verb {
                "revoke" => drop(revoke(&site, &name)),
                "delete" => drop(site.admin().delete(&format!("/api/satellites/{name}")).expect(200)),
                _ => {
                    revoke(&site, &name);
                    reenable(&site, &name, "reissue");
                }
            }
            is_denied.store(true, Ordering::Release);
            let enough = refused.load(Ordering::Relaxed) + 5 * BEATING;
            wait_for("refusals", || (refused.load(Ordering::Relaxed) > enough).then_some(()));
        });
    }
}

/// Ends the threads of a test, also one that fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A satellite is revoked while a connection is open and a request's body is on its way.
fn a_revocation_bites_within_a_request(on: Backend) {
    let site = Site::start(on);
    let robot = online(&site, "edge");
    let body = json!({"activity": "slow"}).to_string();
    let api = |index| robot.at(&site, index).with("content-type", "application/json");
    let mut slow: Vec<_> = (0..2)
        .map(|index| api(index).open("POST", "/satellites/sync", body.len(), "close").unwrap())
        .collect();
    let mut kept: Vec<_> = (0..2)
        .map(|index| {
            let mut stream = api(index).open("POST", "/satellites/sync", body.len(), "keep-alive").unwrap();
            stream.write_all(body.as_bytes()).unwrap();
            assert!(head(&mut stream).contains(" 200 "));
            stream
        })
        .collect();
    slow.iter_mut().for_each(|stream| stream.write_all(&body.as_bytes()[..5]).unwrap());
    thread::sleep(Duration::from_millis(100));
    revoke(&site, "edge");
    for stream in &mut slow {
        stream.write_all(&body.as_bytes()[5..]).unwrap();
        let head = head(stream);
        assert!(head.contains(" 403 "), "{head}");
    }
    for (index, stream) in kept.iter_mut().enumerate() {
        let authorization =
            &api(index).headers.iter().find(|(name, _)| name == "authorization").unwrap().1.clone();
        let request = format!(
            "POST /satellites/sync HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let head = head(stream);
        assert!(head.contains(" 403 "), "{head}");
    }
}

/// Returns an answer, as far as it has arrived: at least its head.
fn head(stream: &mut impl std::io::Read) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !text.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the answer is cut off");
        text.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// C10: 600 satellites behind one address, a client with a revoked token, and one that guesses above the rate
/// limit.
fn a_whole_site_beats_beside_a_guesser(on: Backend) {
    let limits = [
        ("WARDROOM_LIMITS_READ", "50000"),
        ("WARDROOM_LIMITS_WRITE", "50000"),
        ("WARDROOM_LIMITS_REPORT", "200"),
        ("WARDROOM_LIMITS_ANONYMOUS", "5"),
    ];
    let site = Site::start_with(on, &limits);
    let dead = create(&site, "dead");
    ztr(&site, 0, &dead).expect(200);
    // Few at once: looking up an administrator's token is limited as well.
    let robots: Vec<_> = at_once(2, |part| {
        (0..300).map(|number| online(&site, &format!("edge-{part}-{number}"))).collect::<Vec<_>>()
    });
    let robots: Vec<_> = robots.into_iter().flatten().collect();
    let gone = online(&site, "gone");
    revoke(&site, "gone");
    let is_over = AtomicBool::new(false);
    let (guesses, limited) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _end = End(&is_over);
        for index in 0..12 {
            let (site, dead, robots) = (&site, &dead, &robots);
            let (is_over, guesses, limited) = (&is_over, &guesses, &limited);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    let number = guesses.fetch_add(1, Ordering::Relaxed);
                    let guessed = format!("wrz_guess{number}");
                    let stranger =
                        Robot { username: format!("robot$guess-{number}"), password: guessed.clone() };
                    let username = robots[number % robots.len()].username.clone();
                    let neighbour = Robot { username, password: guessed.clone() };
                    let tokens = [ztr(site, index, dead), ztr(site, index, &guessed)];
                    let beats = [stranger.beat(site, index), neighbour.beat(site, index)];
                    for reply in tokens.into_iter().chain(beats) {
                        assert!(matches!(reply.status, 400 | 401 | 429), "{}", reply.text());
                        if reply.status == 429 {
                            assert!(reply.header("retry-after").is_some());
                            limited.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        wait_long_for("the guesses to be limited", || (limited.load(Ordering::Relaxed) > 20).then_some(()));
        for round in 0..3 {
            let statuses = at_once(20, |part| {
                let mine = robots.iter().skip(part).step_by(20);
                mine.map(|robot| robot.beat(&site, part + round).status).collect::<Vec<_>>()
            });
            assert!(statuses.iter().flatten().all(|status| *status == 200), "{statuses:?}");
            // First requests without credentials, and refused satellites, are not limited by guesses of others either.
            let asked = at_once(20, |part| {
                (site.caller(part, None).get("/v2/").status, gone.beat(&site, part).status)
            });
            assert!(asked.iter().all(|statuses| *statuses == (401, 403)), "{asked:?}");
        }
        // A request with a token is answered too.
        online(&site, "newcomer").beat(&site, 0).expect(200);
        // And a satellite with a new credential, on every server.
        revoke(&site, "newcomer");
        let token = reenable(&site, "newcomer", "reissue")["token"].as_str().unwrap().to_owned();
        let again = Robot::of(&ztr(&site, 0, &token));
        for index in 0..2 {
            again.beat(&site, index).expect(200);
        }
    });
}
