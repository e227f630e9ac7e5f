//! What satellites last said of themselves: kept in memory, and written down beside the beats when it changed.
//!
//! What must stay true: a beat writes nothing down. Memory is bounded: lists of images are the large part, so they are
//! cut, and left out once all together are too many. So is writing: numbers that change with every beat are written
//! once in a while, and so many rows and bytes at a time that others get their turn.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use wardroom_api::satellite::{Beat, CachedImage, Reported, Satellite};
use wardroom_store::Document;

use super::document::KIND;
use crate::{app::App, error::Error};

/// Parts that are locked apart.
const PARTS: usize = 64;

/// Images that are kept of one satellite, and of all.
const MOST_IMAGES: usize = 100;
const MOST_OF_ALL: usize = 1_000_000;

/// The longest text that is kept.
const LONGEST: usize = 300;

/// How what satellites say is called beside other observations.
const SOURCE: &str = "heartbeat";

/// How old written numbers may be that change with every beat.
const OLDEST: SignedDuration = SignedDuration::from_mins(15);

/// What goes into one statement, and into one flush.
const BATCH: Amount = Amount { rows: 500, bytes: 1 << 20 };
const MOST: Amount = Amount { rows: 5_000, bytes: 16 << 20 };
const ALL: Amount = Amount { rows: usize::MAX, bytes: usize::MAX };

/// How much there is to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    rows: usize,
    bytes: usize,
}

impl Amount {
    fn and(self, said: &Reported) -> Self {
        Self { rows: self.rows + 1, bytes: self.bytes.saturating_add(size(said)) }
    }

    fn exceeds(self, most: Self) -> bool {
        self.rows > most.rows || self.bytes > most.bytes
    }
}

#[derive(Default)]
struct Part {
    known: HashMap<Box<str>, Kept>,
    /// Those that are to be written down.
    changed: VecDeque<Box<str>>,
}

struct Kept {
    reported: Arc<Reported>,
    /// What was written down of it is from then; nothing for one that is to be written down.
    written: Option<Timestamp>,
}

/// What every satellite last said.
pub(crate) struct Facts {
    parts: [Mutex<Part>; PARTS],
    hasher: RandomState,
    images: AtomicUsize,
    /// The part that is written down first the next time.
    first: AtomicUsize,
}

impl Default for Facts {
    fn default() -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { parts, hasher: RandomState::new(), images: AtomicUsize::new(0), first: AtomicUsize::new(0) }
    }
}

impl Facts {
    /// Keeps what a satellite says. What it says nothing of stays as it was last known.
    pub(crate) fn keep(&self, id: &str, beat: Beat, received_at: Timestamp) {
        let known = self.of(id);
        if known.is_none() && beat == Beat::default() {
            // What was written down of it, perhaps by another server, is still the last that it said.
            return;
        }
        let last = known.as_deref();
        let said = |new: Option<String>, last: Option<&Option<String>>| match new {
            None => last.cloned().flatten(),
            new => short(new),
        };
        let mut images = match (beat.cached_images, last) {
            (Some(images), _) => images,
            (None, Some(last)) => last.cached_images.clone(),
            (None, None) => Vec::new(),
        };
        images.truncate(MOST_IMAGES);
        // What it said before gives its room back.
        let own = last.map_or(0, |last| last.cached_images.len());
        if self.images.load(Ordering::Relaxed) + images.len() > MOST_OF_ALL + own {
            images = Vec::new();
        }
        images.iter_mut().for_each(|CachedImage { reference, .. }| cut(reference));
        self.images.fetch_add(images.len(), Ordering::Relaxed);
        let reported = Reported {
            received_at,
            activity: said(beat.activity, last.map(|last| &last.activity)),
            state_report_interval: said(
                beat.state_report_interval,
                last.map(|last| &last.state_report_interval),
            ),
            memory_used_bytes: beat.memory_used_bytes.or(last.and_then(|last| last.memory_used_bytes)),
            storage_used_bytes: beat.storage_used_bytes.or(last.and_then(|last| last.storage_used_bytes)),
            cpu_percent: beat.cpu_percent.or(last.and_then(|last| last.cpu_percent)),
            image_count: beat.image_count.or(last.and_then(|last| last.image_count)),
            latest_state_digest: said(beat.latest_state_digest, last.map(|last| &last.latest_state_digest)),
            latest_config_digest: said(
                beat.latest_config_digest,
                last.map(|last| &last.latest_config_digest),
            ),
            last_sync_duration_ms: beat
                .last_sync_duration_ms
                .or(last.and_then(|last| last.last_sync_duration_ms)),
            cached_images: images,
        };
        let mut part = self.part(id);
        let Part { known, changed } = &mut *part;
        let Some(kept) = known.get_mut(id) else {
            known.insert(id.into(), Kept { reported: Arc::new(reported), written: None });
            changed.push_back(id.into());
            return;
        };
        let is_new = |written: Timestamp| {
            received_at.duration_since(written) >= OLDEST || differs(&kept.reported, &reported)
        };
        if kept.written.is_some_and(is_new) {
            kept.written = None;
            changed.push_back(id.into());
        }
        let before = std::mem::replace(&mut kept.reported, Arc::new(reported));
        drop(part);
        self.release(Some(&before));
    }

    /// What a satellite last said here.
    pub(crate) fn of(&self, id: &str) -> Option<Arc<Reported>> {
        self.part(id).known.get(id).map(|kept| Arc::clone(&kept.reported))
    }

    /// Forgets a satellite.
    pub(crate) fn forget(&self, id: &str) {
        let before = self.part(id).known.remove(id);
        self.release(before.map(|kept| kept.reported).as_deref());
    }

    /// So much at most of what changed, but for one that is larger by itself; it counts as written down.
    fn take_changed(&self, most: Amount) -> Vec<(String, Arc<Reported>)> {
        let (mut taken, mut amount) = (Vec::new(), Amount::default());
        // Each part has its turn to be first, and who waits longest is first in it: nobody starves.
        let first = self.first.fetch_add(1, Ordering::Relaxed) % PARTS;
        for part in self.parts.iter().cycle().skip(first).take(PARTS) {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(id) = part.changed.pop_front() {
                let Some(kept) = part.known.get_mut(&id) else { continue };
                amount = amount.and(&kept.reported);
                if amount.exceeds(most) && !taken.is_empty() {
                    part.changed.push_front(id);
                    return taken;
                }
                kept.written = Some(kept.reported.received_at);
                taken.push((id.into_string(), Arc::clone(&kept.reported)));
            }
        }
        taken
    }

    /// Those could not be written down.
    fn put_back(&self, taken: &[(String, Arc<Reported>)]) {
        for (id, _) in taken {
            let mut part = self.part(id);
            let kept = part.known.get_mut(id.as_str()).filter(|kept| kept.written.is_some());
            if let Some(kept) = kept {
                kept.written = None;
                part.changed.push_back(id.as_str().into());
            }
        }
    }

    fn release(&self, before: Option<&Reported>) {
        let images = before.map_or(0, |before| before.cached_images.len());
        self.images.fetch_sub(images, Ordering::Relaxed);
    }

    fn part(&self, id: &str) -> MutexGuard<'_, Part> {
        let number = usize::try_from(self.hasher.hash_one(id) % PARTS as u64).unwrap_or_default();
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down what changed, as much as one flush takes.
pub(crate) async fn flush(app: &App) -> Result<(), Error> {
    write(app, MOST).await
}

/// Writes down everything that changed.
pub(crate) async fn flush_all(app: &App) -> Result<(), Error> {
    write(app, ALL).await
}

async fn write(app: &App, most: Amount) -> Result<(), Error> {
    let taken = app.facts.take_changed(most);
    let mut left = &*taken;
    while !left.is_empty() {
        let (batch, after) = left.split_at(first_batch(left));
        let rows = batch.iter().map(|(id, said)| Ok((id.clone(), Document::of(&**said)?, said.received_at)));
        let rows: Result<Vec<_>, Error> = rows.collect();
        let written = match rows {
            Ok(rows) => app.store.observe_all(KIND, SOURCE, &rows).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        if written.is_err() {
            app.facts.put_back(left);
            return written;
        }
        left = after;
    }
    Ok(())
}

/// How many go into the next statement: one at least.
fn first_batch(left: &[(String, Arc<Reported>)]) -> usize {
    let mut amount = Amount::default();
    let fits = left.iter().take_while(|(_, said)| {
        amount = amount.and(said);
        !amount.exceeds(BATCH)
    });
    fits.count().max(1)
}

/// About how many bytes it takes to write something down: texts, and what is around them.
fn size(said: &Reported) -> usize {
    let texts =
        [&said.activity, &said.state_report_interval, &said.latest_state_digest, &said.latest_config_digest];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let images: usize = said.cached_images.iter().map(|image| image.reference.len() + 50).sum();
    texts + images + 400
}

/// Shows what was written down of satellites that were not heard here since.
pub(crate) async fn recall(app: &App, shown: &mut [Satellite]) -> Result<(), Error> {
    let ids: Vec<_> = shown.iter().map(|satellite| satellite.id.clone()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let mut written = HashMap::new();
    for seen in app.store.observed(KIND, SOURCE, &ids).await? {
        written.insert(seen.resource_id, seen.document.read::<Reported>()?);
    }
    for satellite in shown {
        let written = written.remove(&satellite.id);
        let heard = satellite.reported.as_ref().map(|reported| reported.received_at);
        if let Some(written) = written.filter(|written| heard < Some(written.received_at)) {
            satellite.reported = Some(written);
        }
    }
    Ok(())
}

/// Forgets what was written down of a satellite that is gone.
pub(crate) async fn forget(app: &App, id: &str) -> Result<(), Error> {
    app.facts.forget(id);
    app.store.forget_observations(KIND, id).await?;
    Ok(())
}

/// Whether a satellite says something else than before, apart from numbers that change all the time.
fn differs(before: &Reported, after: &Reported) -> bool {
    before.activity != after.activity
        || before.state_report_interval != after.state_report_interval
        || before.image_count != after.image_count
        || before.latest_state_digest != after.latest_state_digest
        || before.latest_config_digest != after.latest_config_digest
        || before.cached_images != after.cached_images
}

fn short(text: Option<String>) -> Option<String> {
    let mut text = text.filter(|text| !text.is_empty())?;
    cut(&mut text);
    Some(text)
}

fn cut(text: &mut String) {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_counted_and_given_back() {
        let facts = Facts::default();
        let beat =
            |count| Beat { cached_images: Some(vec![CachedImage::default(); count]), ..Beat::default() };
        facts.keep("a", beat(500), Timestamp::UNIX_EPOCH);
        assert_eq!(facts.of("a").unwrap().cached_images.len(), MOST_IMAGES);
        facts.keep("a", beat(3), Timestamp::UNIX_EPOCH);
        assert_eq!(facts.images.load(Ordering::Relaxed), 3);
        facts.forget("a");
        assert_eq!((facts.of("a"), facts.images.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn what_changed_is_written_once() {
        let facts = Facts::default();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let beat =
            |images, cpu| Beat { image_count: Some(images), cpu_percent: Some(cpu), ..Beat::default() };
        let some = |rows| Amount { rows, ..ALL };
        let changed = || facts.take_changed(some(10)).len();
        facts.keep("a", beat(1, 0.5), at(0));
        facts.keep("a", beat(1, 0.6), at(30));
        assert_eq!((changed(), changed()), (1, 0));
        facts.keep("a", beat(1, 0.7), at(60));
        assert_eq!(changed(), 0, "numbers that always change");
        facts.keep("a", beat(2, 0.7), at(90));
        let taken = facts.take_changed(some(10));
        assert_eq!(taken[0].1.image_count, Some(2));
        facts.put_back(&taken);
        assert_eq!(changed(), 1, "it could not be written");
        facts.keep("a", beat(2, 0.8), at(90 + OLDEST.as_secs()));
        assert_eq!(changed(), 1, "once in a while");
        facts.keep("b", beat(1, 0.5), at(0));
        facts.forget("b");
        assert_eq!(changed(), 0);
        (0..5).for_each(|number| facts.keep(&format!("c{number}"), beat(1, 0.5), at(0)));
        assert_eq!((facts.take_changed(some(3)).len(), facts.take_changed(some(3)).len()), (3, 2));
    }

    #[test]
    fn what_is_written_at_once_is_bounded_in_bytes() {
        let facts = Facts::default();
        let image = CachedImage { reference: "r".repeat(LONGEST), ..CachedImage::default() };
        for number in 0..600 {
            let cached_images = Some(vec![image.clone(); MOST_IMAGES]);
            facts.keep(&number.to_string(), Beat { cached_images, ..Beat::default() }, Timestamp::UNIX_EPOCH);
        }
        let written = |taken: &[(String, Arc<Reported>)]| -> usize {
            taken.iter().map(|(_, said)| Document::of(&**said).unwrap().as_str().len()).sum()
        };
        let (mut all, mut flushes) = (0, 0);
        loop {
            let taken = facts.take_changed(MOST);
            if taken.is_empty() {
                break;
            }
            assert!(written(&taken) <= MOST.bytes, "{}", written(&taken));
            let mut left = &*taken;
            while !left.is_empty() {
                let (batch, after) = left.split_at(first_batch(left));
                assert!(written(batch) <= BATCH.bytes, "{}", written(batch));
                left = after;
            }
            (all, flushes) = (all + taken.len(), flushes + 1);
        }
        assert_eq!((all, flushes), (600, 2), "all of them, in turns");
        let one = Beat { cached_images: Some(vec![image; 3]), ..Beat::default() };
        facts.keep("large", one, Timestamp::UNIX_EPOCH);
        assert_eq!(
            facts.take_changed(Amount { rows: 1, bytes: 1 }).len(),
            1,
            "nobody is too large to have a turn"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let facts = Facts::default();
        let activity = Some("ä".repeat(400));
        facts.keep("a", Beat { activity, ..Beat::default() }, Timestamp::UNIX_EPOCH);
        assert_eq!(facts.of("a").unwrap().activity.as_ref().unwrap().len(), LONGEST);
    }
}
