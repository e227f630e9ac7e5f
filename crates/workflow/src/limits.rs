//! Limits that everything on this server shares: how many runs of a site are executed at once, and how often
//! something outside is called.
//!
//! Several servers on one store have the same limits: each keeps to its part, so that together they keep to the whole.
//! Nothing is reserved for who waits: whoever gives up, or is cut off, has taken nothing from the others.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How often something may be called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls per second in the long run.
    pub per_second: f64,
    /// Calls that may come at once.
    pub burst: u32,
}

impl Rate {
    /// What is left for each of so many servers. A server may always do one thing at once.
    fn shared(self, servers: u32) -> Self {
        Self { per_second: self.per_second / f64::from(servers), burst: (self.burst / servers).max(1) }
    }

    /// How many calls there may be within a time.
    fn within(self, time: Duration) -> usize {
        usize::try_from(time.as_nanos() / self.interval().as_nanos().max(1)).unwrap_or(usize::MAX)
    }

    fn interval(self) -> Duration {
        Duration::try_from_secs_f64(self.per_second.recip()).unwrap_or(Duration::ZERO)
    }

    /// How far ahead of its rate a bucket may be.
    fn tolerance(self) -> Duration {
        self.interval().saturating_mul(self.burst.saturating_sub(1))
    }
}

/// The limits; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Limits(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// How many others have the same limits.
    others: u32,
    buckets: HashMap<String, Bucket>,
    /// By their upstream, where it is known: those that share one share its places.
    sites: HashMap<String, Site>,
    /// The upstream of each site.
    upstreams: HashMap<String, String>,
}

#[derive(Debug)]
struct Bucket {
    /// When it is full again, if nobody takes anything until then.
    full: Instant,
    /// The rate that it is counted by.
    rate: Option<Rate>,
    /// Whoever waits in a task, in the order they came.
    door: Arc<tokio::sync::Mutex<()>>,
    /// Whoever was sent away to come back, in the order they came first.
    line: VecDeque<Waiter>,
    /// How many have come.
    came: u64,
}

/// A turn at a bucket, which can be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    /// When its owner came first, among all who came.
    came: u64,
}

#[derive(Debug)]
struct Waiter {
    who: String,
    /// The order of coming.
    came: u64,
    /// When it was told to come back.
    due: Instant,
    /// When the place in the line is lost, because its owner did not come back.
    lost: Instant,
}

/// How many before a place are waited for. Where others serve the same runs, whoever is late may have been served by
/// one of them, and holds up nobody; a server by itself keeps the places of those it is late for.
fn ahead(line: &VecDeque<Waiter>, place: Option<usize>, others: u32, now: Instant) -> usize {
    let before = line.iter().take(place.unwrap_or(line.len()));
    before.filter(|waiter| others == 0 || waiter.due + LATE > now).count()
}

#[derive(Debug, Default)]
struct Site {
    inside: usize,
    /// How often it may be called, as far as anybody said.
    pace: Option<Rate>,
    /// Runs that found no place, in the order they came first.
    line: VecDeque<Waiter>,
}

/// How many runs are executed at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// At one site.
    pub(crate) site: usize,
    /// At all of them.
    pub(crate) all: usize,
}

impl Room {
    /// What is left of the places of a site whose calls take their turns at a pace, beside so many runs at all sites. More
    /// than the pace keeps busy would only wait, and hold workers that others could use; and the last quarter of all
    /// workers is for sites that have few of them, or those that wait at slow ones would keep out all others.
    fn places(self, pace: Option<Rate>, servers: usize, inside: usize) -> usize {
        let busy = pace.map_or(usize::MAX, |pace| pace.within(BUSY));
        let few = if inside >= self.all - self.all / 4 { self.all / 16 } else { usize::MAX };
        if self.site == 0 { 0 } else { (self.site.min(busy) / servers).min(few).max(1) }
    }
}

/// Runs at a site are at most as many as it may be called in this time.
const BUSY: Duration = Duration::from_secs(10);
/// Calls that one execution of a stage makes at most, or nearly so.
const CALLS: u32 = 16;
/// However slow a site is, a stage ends after this.
const LONGEST_TURNS: Duration = Duration::from_hours(1);

/// Runs that find no place at their site come back this far apart.
const SPACING: Duration = Duration::from_millis(20);
/// And not before this.
const PAUSE: Duration = Duration::from_millis(100);
/// Nor after this: what was full may be empty by then.
const LONGEST: Duration = Duration::from_secs(5);
/// Whoever stands in a line looks this often at least, and keeps the place for as long again.
const LOOK: Duration = Duration::from_secs(60);
/// Whoever is later than this is not waited for.
const LATE: Duration = Duration::from_secs(1);

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { full: now, rate: None, door: Arc::default(), line: VecDeque::new(), came: 0 }
    }

    /// Counts by this rate from now on. What was taken before counts as so many calls, not as so much time: after a rate
    /// was raised nobody waits as long as before.
    fn keep_to(&mut self, rate: Rate, now: Instant) {
        let before = self.rate.replace(rate).filter(|before| *before != rate);
        let owed = self.full.saturating_duration_since(now);
        if let Some(before) = before {
            let scale = (before.per_second / rate.per_second).clamp(0.0, 1e6);
            self.full = now + owed.mul_f64(scale);
        }
    }

    /// How long until somebody with so many before them may take.
    fn wait(&self, rate: Rate, before: usize, now: Instant) -> Duration {
        let ahead = rate.interval().saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        let turn = (self.full.max(now) + ahead).checked_sub(rate.tolerance()).unwrap_or(now);
        turn.saturating_duration_since(now)
    }

    fn take(&mut self, rate: Rate, now: Instant) {
        self.full = self.full.max(now) + rate.interval();
    }
}

impl Limits {
    /// So many servers work on the same sites, this one among them: each keeps to its part of every limit.
    pub fn share_among(&self, servers: usize) {
        self.lock().others = u32::try_from(servers).unwrap_or(u32::MAX).saturating_sub(1);
    }

    /// How many servers share these limits.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.lock().others.saturating_add(1)
    }

    /// Waits for its turn at a bucket; whoever came first goes first.
    pub async fn take(&self, bucket: &str, rate: Rate) {
        let door = Arc::clone(&self.lock().bucket(bucket, Instant::now()).door);
        let _turn = door.lock().await;
        loop {
            let wait = {
                let (mut inner, now) = (self.lock(), Instant::now());
                let rate = inner.part_of(rate);
                let bucket = inner.bucket(bucket, now);
                bucket.keep_to(rate, now);
                let wait = bucket.wait(rate, 0, now);
                if wait.is_zero() {
                    bucket.take(rate, now);
                    return;
                }
                wait
            };
            sleep(wait).await;
        }
    }

    /// Takes a turn at a bucket, or says when to come back. Whoever comes back in time keeps the place in the line,
    /// whoever does not is forgotten.
    ///
    /// # Errors
    /// How long to wait.
    pub fn ask(&self, bucket: &str, rate: Rate, who: &str, now: Instant) -> Result<Turn, Duration> {
        let mut inner = self.lock();
        let (rate, others) = (inner.part_of(rate), inner.others);
        let bucket = inner.bucket(bucket, now);
        bucket.keep_to(rate, now);
        bucket.line.retain(|waiter| waiter.lost > now || waiter.who == who);
        let place = bucket.line.iter().position(|waiter| waiter.who == who);
        let wait = bucket.wait(rate, ahead(&bucket.line, place, others, now), now).min(LOOK);
        let came = place.and_then(|place| bucket.line.get(place)).map_or(bucket.came, |waiter| waiter.came);
        bucket.came += u64::from(place.is_none());
        if wait.is_zero() {
            bucket.take(rate, now);
            place.and_then(|place| bucket.line.remove(place));
            return Ok(Turn { came });
        }
        stand(&mut bucket.line, place, (who, came), now + wait);
        Err(wait)
    }

    /// Gives a turn back that could not be used, and stands in the line again: behind those who came before, also when
    /// several give theirs back.
    pub fn give_back(&self, bucket: &str, rate: Rate, who: &str, turn: Turn, now: Instant) {
        let mut inner = self.lock();
        let rate = inner.part_of(rate);
        let bucket = inner.bucket(bucket, now);
        bucket.full = bucket.full.checked_sub(rate.interval()).unwrap_or(now);
        let place = bucket.line.partition_point(|waiter| waiter.came < turn.came);
        let waiter = Waiter { who: who.to_owned(), came: turn.came, due: now + LOOK, lost: now + LOOK };
        bucket.line.insert(place, waiter);
    }

    /// How often the upstream of a site may be called. Sites that name the same one share its places too.
    pub fn pace(&self, site: &str, upstream: &str, rate: Rate) {
        let mut inner = self.lock();
        inner.sites.entry(upstream.to_owned()).or_default().pace = Some(rate);
        inner.upstreams.insert(site.to_owned(), upstream.to_owned());
    }

    /// How long an execution of a stage may wait for its turns at a site, when as many are executed there as may be.
    pub(crate) fn turns(&self, site: Option<&str>, room: Room) -> Duration {
        let inner = self.lock();
        let pace = site.and_then(|site| inner.sites.get(inner.upstream(site))?.pace);
        let places = u32::try_from(room.places(pace, inner.servers(), 0)).unwrap_or(u32::MAX);
        pace.map_or(Duration::ZERO, |pace| {
            inner.part_of(pace).interval().saturating_mul(places.saturating_mul(CALLS)).min(LONGEST_TURNS)
        })
    }

    /// Takes one of the places at a site, or says when to come back. Whoever came first goes first: chance would let
    /// some of a thousand wait until all others are done.
    pub(crate) fn enter(
        &self,
        site: Option<&str>,
        room: Room,
        who: &str,
        now: Instant,
    ) -> Result<Place, Duration> {
        let Some(site) = site else { return Ok(Place(None)) };
        let mut inner = self.lock();
        let inside = inner.sites.values().map(|site| site.inside).sum();
        let (servers, others) = (inner.servers(), inner.others);
        let upstream = inner.upstream(site).to_owned();
        let entry = inner.sites.entry(upstream.clone()).or_default();
        let cap = room.places(entry.pace, servers, inside);
        entry.line.retain(|waiter| waiter.lost > now || waiter.who == who);
        let place = entry.line.iter().position(|waiter| waiter.who == who);
        let before = ahead(&entry.line, place, others, now);
        if before < cap.saturating_sub(entry.inside) {
            place.and_then(|place| entry.line.remove(place));
            entry.inside += 1;
            return Ok(Place(Some((self.clone(), upstream))));
        }
        let spacing = SPACING.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        let wait = (PAUSE + spacing).min(LONGEST);
        // Nobody comes back into the middle of this line.
        stand(&mut entry.line, place, (who, 0), now + wait);
        Err(wait)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn servers(&self) -> usize {
        usize::try_from(self.others).unwrap_or(usize::MAX).saturating_add(1)
    }

    fn part_of(&self, rate: Rate) -> Rate {
        rate.shared(self.others.saturating_add(1))
    }

    /// What the places of a site are counted under.
    fn upstream<'a>(&'a self, site: &'a str) -> &'a str {
        self.upstreams.get(site).map_or(site, String::as_str)
    }

    fn bucket(&mut self, name: &str, now: Instant) -> &mut Bucket {
        self.buckets.entry(name.to_owned()).or_insert_with(|| Bucket::new(now))
    }
}

/// Keeps a place in a line, or stands at its end.
fn stand(line: &mut VecDeque<Waiter>, place: Option<usize>, (who, came): (&str, u64), due: Instant) {
    let lost = due + LOOK;
    match place.and_then(|place| line.get_mut(place)) {
        Some(waiter) => (waiter.due, waiter.lost) = (due, lost),
        None => line.push_back(Waiter { who: who.to_owned(), came, due, lost }),
    }
}

/// A place at a site, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<(Limits, String)>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some((limits, upstream)) = self.0.take() else { return };
        if let Some(entry) = limits.lock().sites.get_mut(&upstream) {
            entry.inside = entry.inside.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const fn room(site: usize) -> Room {
        Room { site, all: 100 }
    }

    const TEN: Rate = Rate { per_second: 10.0, burst: 3 };

    #[tokio::test]
    async fn a_bucket_gives_its_burst_at_once_and_the_rest_in_turn() {
        let (limits, now) = (Limits::default(), Instant::now());
        let waits = |bucket: &'static str, now| {
            let limits = limits.clone();
            (0..6).map(move |who| match limits.ask(bucket, TEN, &format!("{who}"), now) {
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
        let ask = |who: &str| limits.ask("site", TEN, who, now).map(drop);
        assert_eq!(ask("a"), Ok(()));
        assert_eq!(ask("b"), Err(Duration::from_millis(300)));
        let enter = |who| limits.enter(Some("site"), room(7), who, now);
        let places: Vec<_> = ["a", "b", "c", "d"].into_iter().map(enter).collect();
        assert_eq!(places.iter().filter(|place| place.is_ok()).count(), 2);
        limits.share_among(1);
        assert!(enter("c").is_ok());
    }

    /// Whoever is cut off while waiting has taken nothing.
    #[tokio::test]
    async fn who_gives_up_takes_nothing() {
        let limits = Limits::default();
        for _ in 0..3 {
            assert!(limits.take("site", TEN).now_or_never().is_some());
        }
        for _ in 0..50 {
            assert!(limits.take("site", TEN).now_or_never().is_none());
        }
        let wait = limits.ask("site", TEN, "who stays", Instant::now()).err();
        assert!(wait <= Some(Duration::from_millis(100)), "{wait:?}");
    }

    /// They were served by another server, which this one does not hear of.
    #[tokio::test]
    async fn who_does_not_come_back_holds_up_nobody() {
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
            "nobody else can have served them"
        );
        limits.share_among(2);
        assert!(limits.enter(Some("site"), room(1), "newcomer", late).is_ok());
    }

    #[tokio::test]
    async fn a_line_is_kept_for_who_comes_back_and_closed_up_for_who_does_not() {
        let (limits, now) = (Limits::default(), Instant::now());
        let turn = |who: &str, now| limits.ask("deploy", Rate { per_second: 0.1, burst: 1 }, who, now);
        let ask = |who: &str, now| turn(who, now).map(drop);
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

    /// Three turns come at once and cannot be used: whoever came first is the first again.
    #[tokio::test]
    async fn a_burst_that_is_given_back_keeps_its_order() {
        let (limits, now) = (Limits::default(), Instant::now());
        let ask = |who: &str, now| limits.ask("deploy", TEN, who, now);
        for _ in 0..4 {
            let turns: Vec<_> = ["a", "b", "c"].map(|who| (who, ask(who, now).unwrap())).into();
            assert!(ask("d", now).is_err());
            for (who, turn) in turns {
                limits.give_back("deploy", TEN, who, turn, now);
            }
            let inner = limits.lock();
            let line: Vec<_> =
                inner.buckets["deploy"].line.iter().map(|waiter| waiter.who.as_str()).collect();
            assert_eq!(line, ["a", "b", "c", "d"]);
        }
    }

    /// Whoever waits at a slow site holds a worker: no more of them than its pace keeps busy, and all sites together
    /// leave some for others.
    #[tokio::test]
    async fn slow_sites_leave_workers_for_others() {
        let (limits, now) = (Limits::default(), Instant::now());
        let room = Room { site: 32, all: 64 };
        let fill = |site: &str| -> Vec<_> {
            (0..40)
                .filter_map(|who| limits.enter(Some(site), room, &format!("{site} {who}"), now).ok())
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
            "the last quarter is for those who have few"
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
    async fn a_site_has_so_many_places_and_who_came_first_goes_first() {
        let (limits, now) = (Limits::default(), Instant::now());
        let enter = |who| limits.enter(Some("a"), room(2), who, now);
        let first = enter("first").unwrap();
        let _second = enter("second").unwrap();
        let waits: Vec<_> =
            ["third", "fourth", "third"].into_iter().map(|who| enter(who).unwrap_err()).collect();
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
        let enter = |site: usize, who: &str| limits.enter(Some(&format!("{site}")), room, who, now);
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
        for who in 0..4 {
            let turn = limits.ask("maas", slow, &format!("{who}"), now);
            assert!(turn.is_ok(), "the burst");
        }
        assert!(limits.ask("maas", slow, "slow", now).unwrap_err() > Duration::from_secs(15));
        let wait = limits.ask("maas", fast, "fast", now).map_or_else(|wait| wait, |_| Duration::ZERO);
        assert!(wait < Duration::from_secs(1), "{wait:?}");
    }
}
