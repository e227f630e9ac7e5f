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
use wardroom_store::{Document, Observation};

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
    /// What was said here, as long as nobody has looked what was written down before.
    said: Option<Box<Beat>>,
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
        let mut part = self.part(id);
        let Part { known, changed } = &mut *part;
        let Some(kept) = known.get_mut(id) else {
            // What was written down of it, perhaps by another server, is still the last that it said.
            if beat != Beat::default() {
                let said = Some(Box::new(beat.clone()));
                let reported = Arc::new(self.lay(None, 0, beat, received_at));
                known.insert(id.into(), Kept { reported, written: None, said });
                changed.push_back(id.into());
            }
            return;
        };
        if let Some(said) = &mut kept.said {
            **said = over(std::mem::take(&mut **said), beat.clone());
        }
        let own = kept.reported.cached_images.len();
        let reported = self.lay(Some(&kept.reported), own, beat, received_at);
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

    /// What is known once a satellite has said this, and its images counted; so many of them are about to be released.
    fn lay(&self, last: Option<&Reported>, own: usize, beat: Beat, received_at: Timestamp) -> Reported {
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
        if self.images.load(Ordering::Relaxed) + images.len() > MOST_OF_ALL + own {
            images = Vec::new();
        }
        images.iter_mut().for_each(|CachedImage { reference, .. }| cut(reference));
        self.images.fetch_add(images.len(), Ordering::Relaxed);
        Reported {
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
        }
    }

    /// Whether nobody has looked yet what was written down of a satellite before it said something here.
    fn is_partial(&self, id: &str) -> bool {
        self.part(id).known.get(id).is_some_and(|kept| kept.said.is_some())
    }

    /// What a satellite said here, laid over what was written down of it before; nothing when that was done already.
    fn over_written(&self, id: &str, written: &Reported) -> Option<Reported> {
        let part = self.part(id);
        let kept = part.known.get(id)?;
        let said = kept.said.as_deref()?.clone();
        let whole = self.lay(Some(written), 0, said, kept.reported.received_at);
        self.release(Some(&whole));
        Some(whole)
    }

    /// Lays what a satellite said here over what was written down of it before, if something was.
    fn complete(&self, id: &str, written: Option<&Reported>) -> Option<Arc<Reported>> {
        let mut part = self.part(id);
        let kept = part.known.get_mut(id)?;
        if let (Some(said), Some(written)) = (kept.said.take(), written) {
            let (own, at) = (kept.reported.cached_images.len(), kept.reported.received_at);
            let whole = Arc::new(self.lay(Some(written), own, *said, at));
            let before = std::mem::replace(&mut kept.reported, whole);
            self.release(Some(&before));
        }
        Some(Arc::clone(&kept.reported))
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
    let mut taken = app.facts.take_changed(most);
    if let Err(error) = complete(app, &mut taken).await {
        app.facts.put_back(&taken);
        return Err(error);
    }
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

/// Looks what was written down of those that said something here for the first time, so that what they leave out is
/// not lost with the server that heard it, or with one that another one followed.
async fn complete(app: &App, taken: &mut [(String, Arc<Reported>)]) -> Result<(), Error> {
    for batch in taken.chunks_mut(BATCH.rows) {
        let ids: Vec<_> =
            batch.iter().map(|(id, _)| id.clone()).filter(|id| app.facts.is_partial(id)).collect();
        if ids.is_empty() {
            continue;
        }
        let mut written = written(app, &ids).await?;
        for (id, said) in batch.iter_mut().filter(|(id, _)| ids.contains(id)) {
            if let Some(whole) = app.facts.complete(id, written.remove(id).as_ref()) {
                *said = whole;
            }
        }
    }
    Ok(())
}

/// What was written down of satellites. What cannot be read any more is as good as never written, and keeps nobody
/// else from being shown or written about.
async fn written(app: &App, ids: &[String]) -> Result<HashMap<String, Reported>, Error> {
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let seen = app.store.observed(KIND, SOURCE, &ids).await?;
    let readable = |seen: Observation| match seen.document.read::<Reported>() {
        Ok(said) => Some((seen.resource_id, said)),
        Err(error) => {
            tracing::warn!(%error, satellite = seen.resource_id, "what a satellite said cannot be read any more");
            None
        }
    };
    Ok(seen.into_iter().filter_map(readable).collect())
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
    let mut written = written(app, &ids).await?;
    for satellite in shown {
        let Some(written) = written.remove(&satellite.id) else { continue };
        let heard = satellite.reported.as_ref().map(|reported| reported.received_at);
        if heard < Some(written.received_at) {
            satellite.reported = Some(written);
        } else if let Some(whole) = app.facts.over_written(&satellite.id, &written) {
            satellite.reported = Some(whole);
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

/// What was said last of everything.
fn over(before: Beat, beat: Beat) -> Beat {
    Beat {
        activity: beat.activity.or(before.activity),
        state_report_interval: beat.state_report_interval.or(before.state_report_interval),
        latest_state_digest: beat.latest_state_digest.or(before.latest_state_digest),
        latest_config_digest: beat.latest_config_digest.or(before.latest_config_digest),
        memory_used_bytes: beat.memory_used_bytes.or(before.memory_used_bytes),
        storage_used_bytes: beat.storage_used_bytes.or(before.storage_used_bytes),
        cpu_percent: beat.cpu_percent.or(before.cpu_percent),
        last_sync_duration_ms: beat.last_sync_duration_ms.or(before.last_sync_duration_ms),
        image_count: beat.image_count.or(before.image_count),
        cached_images: beat.cached_images.or(before.cached_images),
        name: None,
        request_created_time: None,
    }
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
