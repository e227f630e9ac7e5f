//! What the limits promise, by a clock that stands still.

use futures_util::FutureExt as _;

use super::{line::LATE, room::BUSY, *};

const fn room(site: usize) -> Room {
    Room { site, all: 100 }
}

const TEN: Rate = Rate { per_second: 10.0, burst: 3 };

#[tokio::test]
async fn a_bucket_gives_its_burst_at_once_and_the_rest_in_turn() {
    let (limits, now) = (Limits::default(), Instant::now());
    let waits = |bucket: &'static str, now| {
        let limits = limits.clone();
        (0..6).map(move |caller| match limits.ask(bucket, TEN, &format!("{caller}"), now) {
            Ok(_) => 0,
            Err(wait) => wait.as_millis(),
        })
    };
    assert_eq!(waits("site", now).collect::<Vec<_>>(), [0, 0, 0, 100, 200, 300]);
    assert_eq!(waits("another", now).next(), Some(0));
    let later = now + Duration::from_secs(1000);
    let again: Vec<_> = waits("site", later).collect();
    assert_eq!(again, [0, 0, 0, 100, 200, 300], "what was not used is not saved up");
}

#[tokio::test]
async fn each_of_several_servers_has_its_part() {
    let (limits, now) = (Limits::default(), Instant::now());
    limits.share_among(3);
    let ask = |caller: &str| limits.ask("site", TEN, caller, now).map(drop);
    assert_eq!(ask("a"), Ok(()));
    assert_eq!(ask("b"), Err(Duration::from_millis(300)));
    let enter = |caller| limits.enter(Some("site"), room(7), caller, now);
    let places: Vec<_> = ["a", "b", "c", "d"].into_iter().map(enter).collect();
    assert_eq!(places.iter().filter(|place| place.is_ok()).count(), 2);
    limits.share_among(1);
    assert!(enter("c").is_ok());
}

/// A caller that is cut off while it waits has taken nothing.
#[tokio::test]
async fn a_caller_that_gives_up_takes_nothing() {
    let limits = Limits::default();
    for _ in 0..3 {
        assert!(limits.take("site", TEN).now_or_never().is_some());
    }
    for _ in 0..50 {
        assert!(limits.take("site", TEN).now_or_never().is_none());
    }
    let wait = limits.ask("site", TEN, "stays", Instant::now()).err();
    assert!(wait <= Some(Duration::from_millis(100)), "{wait:?}");
}

/// They were served by another server, which this one does not hear of.
#[tokio::test]
async fn a_caller_that_does_not_return_delays_no_other() {
    let (limits, now) = (Limits::default(), Instant::now());
    limits.share_among(2);
    let place = limits.enter(Some("site"), room(1), "inside", now).unwrap();
    for ghost in 0..20 {
        assert!(limits.enter(Some("site"), room(1), &format!("ghost {ghost}"), now).is_err());
    }
    drop(place);
    let soon = now + Duration::from_millis(200);
    assert!(limits.enter(Some("site"), room(1), "newcomer", soon).is_err(), "others are before it");
    let late = now + LONGEST + LATE;
    limits.share_among(1);
    assert!(
        limits.enter(Some("site"), room(1), "newcomer", late).is_err(),
        "no other server can have served them"
    );
    limits.share_among(2);
    assert!(limits.enter(Some("site"), room(1), "newcomer", late).is_ok());
}

#[tokio::test]
async fn a_place_is_kept_for_callers_that_return_in_time() {
    let (limits, now) = (Limits::default(), Instant::now());
    let turn = |caller: &str, now| limits.ask("deploy", Rate { per_second: 0.1, burst: 1 }, caller, now);
    let ask = |caller: &str, now| turn(caller, now).map(drop);
    let seconds = Duration::from_secs;
    assert_eq!(ask("a", now), Ok(()));
    assert_eq!(ask("b", now), Err(seconds(10)));
    assert_eq!(ask("c", now), Err(seconds(20)));
    assert_eq!(ask("c", now), Err(seconds(20)), "asking again takes nothing");
    let later = now + seconds(10);
    assert_eq!(ask("d", later), Err(seconds(20)), "the turn is b's");
    let b = turn("b", later).unwrap();
    limits.give_back("deploy", Rate { per_second: 0.1, burst: 1 }, "b", b, later);
    assert_eq!(ask("c", later), Err(seconds(10)), "b is first again");
    // Neither b nor d comes back.
    let later = later + seconds(75);
    assert_eq!(ask("c", later), Ok(()), "its turn has come");
}

/// Three turns are taken at once and given back: the callers keep their order.
#[tokio::test]
async fn a_burst_that_is_given_back_keeps_its_order() {
    let (limits, now) = (Limits::default(), Instant::now());
    let ask = |caller: &str, now| limits.ask("deploy", TEN, caller, now);
    for _ in 0..4 {
        let turns: Vec<_> = ["a", "b", "c"].map(|caller| (caller, ask(caller, now).unwrap())).into();
        assert!(ask("d", now).is_err());
        for (caller, turn) in turns {
            limits.give_back("deploy", TEN, caller, turn, now);
        }
        let inner = limits.lock();
        let line: Vec<_> = inner.buckets["deploy"].line.iter().map(|waiter| waiter.caller.as_str()).collect();
        assert_eq!(line, ["a", "b", "c", "d"]);
    }
}

/// A run that waits at a slow site occupies a worker. A site gets no more workers than its rate keeps busy,
/// and all sites together leave some for others.
#[tokio::test]
async fn slow_sites_leave_workers_for_others() {
    let (limits, now) = (Limits::default(), Instant::now());
    let room = Room { site: 32, all: 64 };
    let fill = |site: &str| -> Vec<_> {
        (0..40)
            .filter_map(|caller| limits.enter(Some(site), room, &format!("{site} {caller}"), now).ok())
            .collect()
    };
    limits.pace("slow", "slow", Rate { per_second: 0.5, burst: 4 });
    limits.pace("slower", "slower", Rate { per_second: 0.01, burst: 4 });
    let slow = [fill("slow"), fill("slower")];
    assert_eq!(slow.each_ref().map(Vec::len), [5, 1]);
    let busy = [fill("one"), fill("two"), fill("three"), fill("four")];
    assert_eq!(
        busy.each_ref().map(Vec::len),
        [32, 10, 4, 4],
        "the last quarter is for sites with few workers"
    );
}

/// A stage has time for its turns, however far apart they are.
#[tokio::test]
async fn turns_take_the_time_they_need() {
    let (limits, room) = (Limits::default(), Room { site: 32, all: 64 });
    let turns = |site| limits.turns(Some(site), room).as_secs();
    for (site, per_second) in [("slow", 0.05), ("usual", 20.0), ("slowest", 0.001)] {
        limits.pace(site, site, Rate { per_second, burst: 4 });
    }
    assert_eq!((turns("nowhere"), turns("slow"), turns("usual"), turns("slowest")), (0, 320, 25, 3600));
    limits.share_among(2);
    assert_eq!(turns("slow"), 640, "each server has half the turns");
}

#[tokio::test]
async fn places_of_a_site_are_limited_and_taken_in_order() {
    let (limits, now) = (Limits::default(), Instant::now());
    let enter = |caller| limits.enter(Some("a"), room(2), caller, now);
    let first = enter("first").unwrap();
    let _second = enter("second").unwrap();
    let waits: Vec<_> =
        ["third", "fourth", "third"].into_iter().map(|caller| enter(caller).unwrap_err()).collect();
    assert!(waits[0] < waits[1] && waits[0] == waits[2], "{waits:?}");
    assert!(limits.enter(Some("b"), room(2), "third", now).is_ok(), "other sites have their own");
    assert!(limits.enter(None, room(0), "third", now).is_ok());
    drop(first);
    assert!(enter("fourth").is_err(), "the third was there before");
    assert!(enter("fifth").is_err());
    assert!(enter("third").is_ok());
}

/// However many sites have the same upstream, no more runs wait for it than it keeps busy, and each has the time that
/// its turns take.
#[tokio::test]
async fn sites_that_share_an_upstream_share_its_places() {
    let (limits, now) = (Limits::default(), Instant::now());
    let room = Room { site: 32, all: 64 };
    let rate = Rate { per_second: 0.2, burst: 4 };
    for site in 0..12 {
        limits.pace(&format!("{site}"), "maas", rate);
    }
    let enter = |site: usize, caller: &str| limits.enter(Some(&format!("{site}")), room, caller, now);
    let inside: Vec<_> = (0..12).filter_map(|site| enter(site, &format!("run {site}")).ok()).collect();
    assert_eq!(inside.len(), rate.within(BUSY), "one call in five seconds");
    drop(inside);
    assert!(enter(11, "run 2").is_ok(), "places are given back where they were taken");
}

/// What was taken at a slow rate is not waited for once the rate was raised.
#[tokio::test]
async fn a_rate_that_is_raised_holds_at_once() {
    let (limits, now) = (Limits::default(), Instant::now());
    let (slow, fast) = (Rate { per_second: 0.05, burst: 4 }, Rate { per_second: 20.0, burst: 4 });
    for caller in 0..4 {
        let turn = limits.ask("maas", slow, &format!("{caller}"), now);
        assert!(turn.is_ok(), "the burst");
    }
    assert!(limits.ask("maas", slow, "slow", now).unwrap_err() > Duration::from_secs(15));
    let wait = limits.ask("maas", fast, "fast", now).map_or_else(|wait| wait, |_| Duration::ZERO);
    assert!(wait < Duration::from_secs(1), "{wait:?}");
}

/// A caller that waits at a slow upstream passes as soon as its rate is raised, and a later one waits when
/// the rate is lowered.
#[tokio::test]
async fn a_turn_is_taken_at_the_pace_of_now() {
    let limits = Limits::default();
    let pace = |per_second| limits.pace("site", "maas", Rate { per_second, burst: 1 });
    pace(0.01);
    limits.turn("maas").await;
    let waits = tokio::spawn({
        let limits = limits.clone();
        async move { limits.turn("maas").await }
    });
    assert!(limits.turn("maas").now_or_never().is_none());
    tokio::task::yield_now().await;
    pace(1000.0);
    tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap().unwrap();
    pace(0.01);
    limits.turn("maas").now_or_never();
    assert!(limits.turn("maas").now_or_never().is_none());
    limits.turn("upstream without a rate").await;
}

/// A caller that may have a part of the turns leaves the rest to others, however often it asks.
#[tokio::test]
async fn a_part_of_the_turns_leaves_the_rest() {
    let limits = Limits::default();
    limits.pace("site", "maas", Rate { per_second: 0.01, burst: 4 });
    assert!(limits.turn_of("maas", "poll", 0.5).now_or_never().is_some());
    for _ in 0..10 {
        assert!(limits.turn_of("maas", "poll", 0.5).now_or_never().is_none());
    }
    let left = (0..10).filter(|_| limits.turn("maas").now_or_never().is_some()).count();
    assert_eq!(left, 3);
}

/// Holds also when the address of one MAAS is that of another plus the name of a caller.
#[tokio::test]
async fn a_part_of_the_turns_is_of_one_upstream() {
    let limits = Limits::default();
    for maas in ["maas", "maas/poll"] {
        limits.pace(maas, maas, Rate { per_second: 0.01, burst: 4 });
    }
    assert!(limits.turn_of("maas", "poll", 0.5).now_or_never().is_some());
    let left = (0..10).filter(|_| limits.turn("maas/poll").now_or_never().is_some()).count();
    assert_eq!(left, 4);
}

/// Runs that came in while the pace was fast wait for their turns at the slow one, all of them.
#[tokio::test]
async fn runs_inside_when_the_rate_is_lowered_have_the_time() {
    let (limits, now, room) = (Limits::default(), Instant::now(), Room { site: 32, all: 64 });
    let pace = |per_second| limits.pace("site", "maas", Rate { per_second, burst: 4 });
    pace(20.0);
    let inside: Vec<_> =
        (0..32).map(|caller| limits.enter(Some("site"), room, &format!("{caller}"), now).unwrap()).collect();
    pace(0.2);
    assert_eq!(limits.turns(Some("site"), room).as_secs(), 5 * 32 * 16);
    drop(inside);
    assert_eq!(limits.turns(Some("site"), room).as_secs(), 5 * 2 * 16);
}
