//! What satellites last said of themselves, in memory: a beat writes nothing down.
//!
//! What must stay true: memory is bounded. Lists of images are the large part, so they are cut, and left out once all
//! together are too many.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::Timestamp;
use wardroom_api::satellite::{Beat, CachedImage, Reported};

/// Parts that are locked apart.
const PARTS: usize = 64;

/// Images that are kept of one satellite, and of all.
const MOST_IMAGES: usize = 100;
const MOST_OF_ALL: usize = 1_000_000;

/// The longest text that is kept.
const LONGEST: usize = 300;

type Part = HashMap<Box<str>, Arc<Reported>>;

/// What every satellite last said.
pub(crate) struct Facts {
    parts: [Mutex<Part>; PARTS],
    hasher: RandomState,
    images: AtomicUsize,
}

impl Default for Facts {
    fn default() -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { parts, hasher: RandomState::new(), images: AtomicUsize::new(0) }
    }
}

impl Facts {
    /// Keeps what a satellite says.
    pub(crate) fn keep(&self, id: &str, beat: Beat, received_at: Timestamp) {
        let mut images = beat.cached_images.unwrap_or_default();
        images.truncate(MOST_IMAGES);
        if self.images.load(Ordering::Relaxed) + images.len() > MOST_OF_ALL {
            images = Vec::new();
        }
        images.iter_mut().for_each(|CachedImage { reference, .. }| cut(reference));
        self.images.fetch_add(images.len(), Ordering::Relaxed);
        let reported = Reported {
            received_at,
            activity: short(beat.activity),
            state_report_interval: short(beat.state_report_interval),
            memory_used_bytes: beat.memory_used_bytes,
            storage_used_bytes: beat.storage_used_bytes,
            cpu_percent: beat.cpu_percent,
            image_count: beat.image_count,
            latest_state_digest: short(beat.latest_state_digest),
            latest_config_digest: short(beat.latest_config_digest),
            last_sync_duration_ms: beat.last_sync_duration_ms,
            cached_images: images,
        };
        let before = self.part(id).insert(id.into(), Arc::new(reported));
        self.release(before.as_deref());
    }

    /// What a satellite last said here.
    pub(crate) fn of(&self, id: &str) -> Option<Arc<Reported>> {
        self.part(id).get(id).cloned()
    }

    /// Forgets a satellite.
    pub(crate) fn forget(&self, id: &str) {
        let before = self.part(id).remove(id);
        self.release(before.as_deref());
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
    fn long_texts_are_cut_between_characters() {
        let facts = Facts::default();
        let activity = Some("ä".repeat(400));
        facts.keep("a", Beat { activity, ..Beat::default() }, Timestamp::UNIX_EPOCH);
        assert_eq!(facts.of("a").unwrap().activity.as_ref().unwrap().len(), LONGEST);
    }
}
