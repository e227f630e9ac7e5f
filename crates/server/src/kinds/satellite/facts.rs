//! The last reports of satellites, kept in the platform's buffer ([`crate::platform::observed`]).
//!
//! Memory is bounded: lists and texts are cut, and of a written report only its numbers and hashes of its
//! other fields stay.

use std::{
    hash::BuildHasher as _,
    sync::{Arc, LazyLock},
};

use hashbrown::DefaultHashBuilder;
use jiff::Timestamp;
use wardroom_api::satellite::{Beat, CachedImage, Reported, Satellite};

use super::document::KIND;
use crate::platform::{
    app::App,
    http::error::Error,
    observed::{Buffer, Report},
};

pub(crate) struct Facts(pub(crate) Arc<Buffer<Beat>>);

/// Images that are kept of one satellite.
const MOST_IMAGES: usize = 100;

/// The longest text that is kept.
const LONGEST: usize = 300;

/// The source name of these reports among a satellite's observations.
const SOURCE: &str = "heartbeat";

/// The part of a written report that stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Brief {
    /// Hashes of the activity, the interval, the count of images, the two digests and the images; 0 if never
    /// reported.
    marks: [u32; 6],
    memory_used_bytes: Number,
    storage_used_bytes: Number,
    /// The bits of the number.
    cpu_percent: Number,
    last_sync_duration_ms: Number,
}

/// A number of a report, or none, in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number(u64);

impl Number {
    /// Out of range for bytes and milliseconds, and NaN for floats.
    const NONE: Self = Self(u64::MAX);

    fn or(said: Option<u64>, before: Self) -> Self {
        said.map_or(before, Self)
    }

    fn get(self) -> Option<u64> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl Default for Brief {
    fn default() -> Self {
        let none = Number::NONE;
        Self {
            marks: [0; 6],
            memory_used_bytes: none,
            storage_used_bytes: none,
            cpu_percent: none,
            last_sync_duration_ms: none,
        }
    }
}

impl Facts {
    pub(crate) fn at(app: &App) -> &Self {
        app.part()
    }

    /// Keeps the report of a satellite, cut to the fields and lengths that are kept.
    pub(crate) fn keep(&self, id: &str, mut beat: Beat, received_at: Timestamp) {
        // These fields are not facts about the satellite.
        (beat.name, beat.request_created_time) = (None, None);
        let texts = [
            &mut beat.activity,
            &mut beat.state_report_interval,
            &mut beat.latest_state_digest,
            &mut beat.latest_config_digest,
        ];
        texts.into_iter().flatten().for_each(cut);
        if let Some(images) = &mut beat.cached_images {
            images.truncate(MOST_IMAGES);
            images.iter_mut().for_each(|CachedImage { reference, .. }| cut(reference));
        }
        self.0.keep(id, beat, received_at);
    }
}

impl Report for Beat {
    const KIND: &'static str = KIND;
    const SOURCE: &'static str = SOURCE;
    const KEEPS_BRIEF: bool = true;
    type Brief = Brief;
    type Stored = Reported;

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Texts, with an allowance for the rest.
    fn size(&self) -> usize {
        let texts = [
            &self.activity,
            &self.state_report_interval,
            &self.latest_state_digest,
            &self.latest_config_digest,
        ];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let images = self.cached_images.iter().flatten();
        let images: usize = images.map(|image| image.reference.len() + 50).sum();
        texts + images + 400
    }

    fn over(self, before: &Self) -> Self {
        Self {
            activity: self.activity.or_else(|| before.activity.clone()),
            state_report_interval: self
                .state_report_interval
                .or_else(|| before.state_report_interval.clone()),
            latest_state_digest: self.latest_state_digest.or_else(|| before.latest_state_digest.clone()),
            latest_config_digest: self.latest_config_digest.or_else(|| before.latest_config_digest.clone()),
            memory_used_bytes: self.memory_used_bytes.or(before.memory_used_bytes),
            storage_used_bytes: self.storage_used_bytes.or(before.storage_used_bytes),
            cpu_percent: self.cpu_percent.or(before.cpu_percent),
            last_sync_duration_ms: self.last_sync_duration_ms.or(before.last_sync_duration_ms),
            image_count: self.image_count.or(before.image_count),
            cached_images: self.cached_images.or_else(|| before.cached_images.clone()),
            name: None,
            request_created_time: None,
        }
    }

    fn is_whole(&self) -> bool {
        self.activity.is_some()
            && self.state_report_interval.is_some()
            && self.latest_state_digest.is_some()
            && self.latest_config_digest.is_some()
            && self.image_count.is_some()
            && self.cached_images.is_some()
            && self.memory_used_bytes.is_some()
            && self.storage_used_bytes.is_some()
            && self.cpu_percent.is_some()
            && self.last_sync_duration_ms.is_some()
    }

    fn brief(&self, before: &Brief) -> Brief {
        let text = |text: &Option<String>| text.as_ref().map(|text| mark(text.as_str()));
        let images = self.cached_images.as_ref().map(|images| {
            let images: Vec<_> = images.iter().map(|image| (&image.reference, image.size_bytes)).collect();
            mark(images)
        });
        let said = [
            text(&self.activity),
            text(&self.state_report_interval),
            self.image_count.map(mark),
            text(&self.latest_state_digest),
            text(&self.latest_config_digest),
            images,
        ];
        let mut marks = before.marks;
        for (mark, said) in marks.iter_mut().zip(said) {
            *mark = said.unwrap_or(*mark);
        }
        Brief {
            marks,
            memory_used_bytes: Number::or(self.memory_used_bytes, before.memory_used_bytes),
            storage_used_bytes: Number::or(self.storage_used_bytes, before.storage_used_bytes),
            cpu_percent: Number::or(self.cpu_percent.map(f64::to_bits), before.cpu_percent),
            last_sync_duration_ms: Number::or(self.last_sync_duration_ms, before.last_sync_duration_ms),
        }
    }

    fn differs(before: &Brief, after: &Brief) -> bool {
        before.marks != after.marks
    }

    fn take_numbers(brief: &mut Brief, after: &Brief) {
        *brief = Brief { marks: brief.marks, ..*after };
    }

    fn stored(
        said: Option<Self>,
        brief: &Brief,
        written: Option<Reported>,
        received_at: Timestamp,
    ) -> Option<Reported> {
        if said.is_none() && written.is_none() {
            return None;
        }
        let (said, before) = (said.unwrap_or_default(), written.unwrap_or_default());
        // An empty text removes the stored one.
        let text = |new: Option<String>, before| match new {
            None => before,
            new => new.filter(|text| !text.is_empty()),
        };
        Some(Reported {
            received_at,
            activity: text(said.activity, before.activity),
            state_report_interval: text(said.state_report_interval, before.state_report_interval),
            memory_used_bytes: brief.memory_used_bytes.get().or(before.memory_used_bytes),
            storage_used_bytes: brief.storage_used_bytes.get().or(before.storage_used_bytes),
            cpu_percent: brief.cpu_percent.get().map(f64::from_bits).or(before.cpu_percent),
            image_count: said.image_count.or(before.image_count),
            latest_state_digest: text(said.latest_state_digest, before.latest_state_digest),
            latest_config_digest: text(said.latest_config_digest, before.latest_config_digest),
            last_sync_duration_ms: brief.last_sync_duration_ms.get().or(before.last_sync_duration_ms),
            cached_images: said.cached_images.unwrap_or(before.cached_images),
        })
    }
}

/// A hash of a value; never 0.
fn mark(value: impl std::hash::Hash) -> u32 {
    static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    let hash = HASHER.hash_one(value);
    // Folds both halves.
    u32::try_from((hash ^ (hash >> 32)) & u64::from(u32::MAX)).unwrap_or_default().max(1)
}

/// Fills in the last reports of satellites.
pub(crate) async fn recall(app: &App, shown: &mut [Satellite]) -> Result<(), Error> {
    let ids: Vec<_> = shown.iter().map(|satellite| satellite.id.as_str()).collect();
    let mut latest = Facts::at(app).0.latest(&app.store, &ids).await?;
    for satellite in shown {
        satellite.reported = latest.remove(&satellite.id);
    }
    Ok(())
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
    fn texts_are_cut_between_characters_and_images_counted() {
        let facts = Facts(Arc::default());
        let (activity, cached_images) = (Some("ä".repeat(400)), Some(vec![CachedImage::default(); 500]));
        let beat = Beat { activity, cached_images, ..Beat::default() };
        facts.keep("a", beat, Timestamp::UNIX_EPOCH);
        let known = facts.0.overlaid("a", None, None).unwrap();
        assert_eq!(known.activity.unwrap().len(), LONGEST);
        assert_eq!(known.cached_images.len(), MOST_IMAGES);
    }

    #[test]
    fn an_empty_field_is_cleared_and_a_missing_one_stays() {
        let before = Reported {
            activity: Some("idle".to_owned()),
            image_count: Some(3),
            cpu_percent: Some(2.5),
            memory_used_bytes: Some(0),
            ..Reported::default()
        };
        let said = Beat { activity: Some(String::new()), cpu_percent: Some(4.0), ..Beat::default() };
        let brief = said.brief(&Brief::default());
        let stored = Beat::stored(Some(said), &brief, Some(before.clone()), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(stored.received_at, Timestamp::UNIX_EPOCH);
        let expected = Reported { activity: None, cpu_percent: Some(4.0), ..before };
        assert_eq!(stored, Reported { received_at: stored.received_at, ..expected });
        assert_eq!(Beat::stored(None, &brief, None, Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn a_change_is_told_from_numbers_that_always_change() {
        let say = |images, cpu| Beat { image_count: images, cpu_percent: cpu, ..Beat::default() };
        let first = say(Some(1), Some(0.5)).brief(&Brief::default());
        for (next, differs) in [
            (say(Some(1), Some(0.6)), false),
            (say(None, Some(0.7)), false),
            (say(Some(2), None), true),
            (Beat { activity: Some(String::new()), ..Beat::default() }, true),
            (Beat { cached_images: Some(Vec::new()), ..Beat::default() }, true),
        ] {
            assert_eq!(Beat::differs(&first, &next.brief(&first)), differs, "{next:?}");
        }
    }
}
