//! Liveness with a million members, each number beside a baseline of the same run.
//!
//! PostgreSQL is measured when `WARDROOM_TEST_POSTGRES` names a cluster (`./dev bench` does).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark panics and prints")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "liveness/fleet.rs"]
mod fleet;
#[path = "liveness/machine.rs"]
mod machine;
#[path = "liveness/raw.rs"]
mod raw;

use std::{
    hint::black_box,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use fleet::{Fleet, MEMBERS};
use jiff::SignedDuration;
use wardroom_bench::say;
use wardroom_server::platform::liveness::Driver;

/// Members that die at once.
const DYING: usize = 20_000;

/// A flush has to fit into one interval.
const INTERVAL: f64 = 30.0;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("{}", machine::describe());
    if wants("memory") {
        runtime.block_on(memory());
    }
    for database in fleet::databases() {
        if wants("dying") {
            runtime.block_on(dying(&database));
        }
        if wants("flush") {
            runtime.block_on(flush(&database));
        }
        if wants("look") {
            runtime.block_on(look(&database));
        }
    }
    wardroom_bench::end()
}

/// What a member costs, what a sweep costs when there is nothing to do, and what a beat costs.
async fn memory() {
    let mut fleet = Fleet::new(&fleet::Where::Sqlite).await;
    let before = machine::resident_bytes();
    fleet.seat_all();
    let bytes = (machine::resident_bytes() - before) as f64 / MEMBERS as f64;
    say(bytes <= 200.0, &format!("memory: {bytes:.0} bytes a member, map and names included (at most 200)"));

    let plain: Vec<AtomicU32> = (0..MEMBERS).map(|_| AtomicU32::new(u32::MAX)).collect();
    let scan = best(20, || {
        let due = plain.iter().filter(|deadline| deadline.load(Relaxed) <= black_box(7)).count();
        black_box(due);
    });
    let mut sweep = Duration::MAX;
    for _ in 0..20 {
        fleet.driver.sweep(&fleet.app).await.unwrap();
        let took = Duration::from_micros(fleet.app.liveness.view().sweeper.last_sweep_micros.unwrap());
        sweep = sweep.min(took);
    }
    let took = millis(sweep);
    say(took < 5.0, &format!("sweep of {MEMBERS} when no member is due: {took:.2} ms (under 5)"));
    println!("  plain scan of as many atomics: {:.2} ms, ratio {:.1}", millis(scan), ratio(sweep, scan));

    let stores: Vec<AtomicU64> = (0..MEMBERS).map(|_| AtomicU64::new(0)).collect();
    let order = fleet::shuffled();
    let store = best(3, || order.iter().for_each(|member| stores[*member as usize].store(1, Relaxed)));
    let seats: Vec<_> = (0..MEMBERS).map(|member| fleet.find(member)).collect();
    let beat = best(3, || order.iter().for_each(|member| fleet.beat(seats[*member as usize])));
    let ids: Vec<_> = order.iter().map(|member| fleet::id(*member as usize)).collect();
    let find = best(3, || {
        ids.iter().for_each(|id| fleet.beat(fleet.app.liveness.find(fleet::KIND, id).unwrap()));
    });
    let rate = |took: Duration| MEMBERS as f64 / took.as_secs_f64() / 1e6;
    println!("beats, one thread, random order: {:.1} M/s by seat, {:.1} M/s by id", rate(beat), rate(find));
    println!(
        "  plain atomic stores: {:.1} M/s, ratio {:.2} and {:.2}",
        rate(store),
        ratio(store, beat),
        ratio(store, find)
    );
}

/// Many die at once while all others go on beating.
async fn dying(at: &fleet::Where) {
    let mut fleet = Fleet::new(at).await;
    let began = Instant::now();
    fleet.store_members(DYING).await;
    println!("{at}: seeded {DYING} members in the store in {:.1} s", began.elapsed().as_secs_f64());
    fleet.seat_all();
    for _ in 0..3 {
        fleet.beat_from(0);
        fleet.seconds(30).await;
    }
    assert_eq!(fleet.app.liveness.view().due, 0);
    // Their last beat was 30 s ago; the others beat on.
    fleet.beat_from(DYING);
    fleet.seconds(30).await;
    fleet.beat_from(DYING);
    let hand = fleet.hand;
    let (app, driver) = (&fleet.app, &mut fleet.driver);
    let (stop, beats) = (AtomicBool::new(false), AtomicU64::new(0));
    let beating = Instant::now();
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A million members at 30 s: as many beats a second as they would send.
            let mut next = DYING;
            while !stop.load(Relaxed) {
                let began = Instant::now();
                for _ in 0..3_400 {
                    let seat = app.liveness.find(fleet::KIND, &fleet::id(next)).unwrap();
                    black_box(app.liveness.beat(seat, None));
                    next = if next + 1 == MEMBERS { DYING } else { next + 1 };
                }
                beats.fetch_add(3_400, Relaxed);
                std::thread::sleep(Duration::from_millis(100).saturating_sub(began.elapsed()));
            }
        });
        let took = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                // Time counts from the first sweep that finds one of them.
                let mut began = None;
                loop {
                    let before = Instant::now();
                    hand.pass(SignedDuration::from_secs(1));
                    driver.sweep(app).await.unwrap();
                    let left = app.liveness.view().members[fleet::KIND];
                    if left < MEMBERS as u64 {
                        began.get_or_insert(before);
                    }
                    if left == (MEMBERS - DYING) as u64 {
                        break began.unwrap().elapsed();
                    }
                    assert!(left > (MEMBERS - DYING) as u64, "another member died");
                }
            })
        });
        stop.store(true, Relaxed);
        took
    });
    let rate = beats.load(Relaxed) as f64 / beating.elapsed().as_secs_f64();
    let took = took.as_secs_f64();
    say(
        took <= 10.0,
        &format!(
            "{at}: {DYING} of {MEMBERS} died at once: all stale, each with history, within {took:.1} s (at most 10), while {rate:.0} beats/s went on"
        ),
    );
}

/// Every member's beat is written down.
async fn flush(at: &fleet::Where) {
    let mut fleet = Fleet::new(at).await;
    fleet.seat_all();
    let processor = machine::Processor::new(at).await;
    for what in ["first, all rows are new", "again, all rows are there"] {
        fleet.hand.pass(SignedDuration::from_secs(1));
        fleet.beat_from(0);
        let (began, used) = (Instant::now(), processor.seconds());
        let rows = fleet.flush().await;
        let (took, used) = (began.elapsed().as_secs_f64(), processor.seconds() - used);
        let share = used / INTERVAL * 100.0;
        say(
            took <= INTERVAL && share < 50.0,
            &format!(
                "{at}: flush of {rows} beats ({what}): {took:.1} s (at most {INTERVAL:.0}), {used:.1} s of processor time, {share:.0} % of a core over an interval (under 50)"
            ),
        );
    }
    let (began, used) = (Instant::now(), processor.seconds());
    raw::insert(at, MEMBERS).await;
    let (took, used) = (began.elapsed().as_secs_f64(), processor.seconds() - used);
    println!("{at}:   raw inserts of as many rows: {took:.1} s, {used:.1} s of processor time");
}

/// The lease holder asks for overdue rows beside other replicas.
async fn look(at: &fleet::Where) {
    let mut fleet = Fleet::new(at).await;
    // An embedded database has one server.
    let Some(url) = fleet.url.clone() else { return };
    fleet.store_members(DYING).await;
    fleet.seat_all();
    fleet.beat_from(0);
    fleet.flush().await;
    for (what, late) in [("none is late", 0), ("many are late", DYING)] {
        fleet.beat_from(late);
        fleet.flush().await;
        raw::make_older(&url, late).await;
        let mut took = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            Driver::look(&fleet.app).await.unwrap();
            took = took.min(began.elapsed());
        }
        let began = Instant::now();
        let rows = raw::read(&url).await;
        let plain = began.elapsed();
        println!(
            "{at}: a look at {rows} rows, {late} of them overdue ({what}): {:.0} ms; all rows read without Wardroom: {:.0} ms, ratio {:.2}",
            millis(took),
            millis(plain),
            ratio(took, plain)
        );
    }
}

fn best(times: usize, mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    (0..times).map(once).min().unwrap()
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn ratio(ours: Duration, base: Duration) -> f64 {
    ours.as_secs_f64() / base.as_secs_f64()
}
