use wardroom_api::satellite::{Beat, CachedImage};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn beat(images: u64, cpu: f64) -> Beat {
    Beat { image_count: Some(images), cpu_percent: Some(cpu), ..Beat::default() }
}

fn some(rows: usize) -> Amount {
    Amount { rows, ..ALL }
}

/// As a flush does.
fn write_some(buffer: &Buffer<Beat>, rows: usize) -> usize {
    let taken = buffer.take(some(rows));
    buffer.written(&taken);
    taken.len()
}

#[test]
fn a_change_is_written_once() {
    let buffer = Buffer::<Beat>::default();
    buffer.keep("a", beat(1, 0.5), at(0));
    buffer.keep("a", beat(1, 0.6), at(30));
    assert_eq!((write_some(&buffer, 10), write_some(&buffer, 10)), (1, 0));
    buffer.keep("a", beat(1, 0.7), at(60));
    assert_eq!(write_some(&buffer, 10), 0, "numbers that always change");
    assert_eq!(buffer.waiting.load(Relaxed), 0);
    buffer.keep("a", beat(2, 0.7), at(90));
    let taken = buffer.take(some(10));
    assert_eq!(taken[0].said.image_count, Some(2));
    buffer.put_back(&taken);
    assert_eq!(write_some(&buffer, 10), 1, "it could not be written");
    buffer.keep("a", beat(2, 0.8), at(90 + OLDEST.as_secs()));
    assert_eq!(write_some(&buffer, 10), 1, "once in a while");
    buffer.keep("b", beat(1, 0.5), at(0));
    buffer.forget("b");
    assert_eq!((write_some(&buffer, 10), buffer.waiting.load(Relaxed)), (0, 0));
    (0..5).for_each(|number| buffer.keep(&format!("c{number}"), beat(1, 0.5), at(0)));
    assert_eq!((write_some(&buffer, 3), write_some(&buffer, 3)), (3, 2));
}

/// What comes while a flush is under way is neither lost with it nor taken for written.
#[test]
fn news_during_a_flush_are_written_by_the_next_one() {
    let buffer = Buffer::<Beat>::default();
    for fails in [false, true] {
        buffer.keep("a", beat(1, 0.5), at(0));
        let taken = buffer.take(some(10));
        buffer.keep("a", beat(2, 0.5), at(1));
        let shown = buffer.overlaid("a", None, None).unwrap();
        assert_eq!(shown.image_count, Some(2));
        if fails {
            buffer.put_back(&taken);
        } else {
            buffer.written(&taken);
        }
        let taken = buffer.take(some(10));
        assert_eq!((taken.len(), taken[0].said.image_count), (1, Some(2)));
        buffer.written(&taken);
        assert_eq!(buffer.waiting.load(Relaxed), 0);
        buffer.forget("a");
    }
}

#[test]
fn a_batch_is_bounded_in_bytes() {
    let buffer = Buffer::<Beat>::default();
    let image = CachedImage { reference: "r".repeat(300), ..CachedImage::default() };
    for number in 0..600 {
        let cached_images = Some(vec![image.clone(); 100]);
        buffer.keep(&number.to_string(), Beat { cached_images, ..Beat::default() }, at(0));
    }
    let size = |taken: &[Taken<Beat>]| -> usize {
        let stored = |one: &Taken<Beat>| {
            let stored = Beat::stored(Some((*one.said).clone()), &one.brief, None, one.received_at);
            Document::of(&stored.unwrap()).unwrap().as_str().len()
        };
        taken.iter().map(stored).sum()
    };
    let (mut all, mut flushes) = (0, 0);
    loop {
        let taken = buffer.take(MOST);
        if taken.is_empty() {
            break;
        }
        assert!(size(&taken) <= MOST.bytes, "{}", size(&taken));
        let mut left = &*taken;
        while !left.is_empty() {
            let (batch, after) = left.split_at(first_batch(left));
            assert!(size(batch) <= BATCH.bytes, "{}", size(batch));
            left = after;
        }
        buffer.written(&taken);
        (all, flushes) = (all + taken.len(), flushes + 1);
    }
    assert_eq!((all, flushes), (600, 2), "all of them, in turns");
    let large = Beat { cached_images: Some(vec![image; 3]), ..Beat::default() };
    buffer.keep("large", large, at(0));
    assert_eq!(buffer.take(Amount { rows: 1, bytes: 1 }).len(), 1, "one that is too large has its turn");
}

/// A report that there is no room for counts as new when it is repeated.
#[test]
fn waiting_reports_are_bounded() {
    let buffer = Buffer::<Beat>::with_room(beat(1, 0.5).size() * 10);
    let say =
        |seconds| (0..15).for_each(|number| buffer.keep(&number.to_string(), beat(1, 0.5), at(seconds)));
    say(0);
    assert_eq!(write_some(&buffer, 100), 10);
    say(30);
    assert_eq!(write_some(&buffer, 100), 5);
    say(60);
    assert_eq!((write_some(&buffer, 100), buffer.waiting.load(Relaxed)), (0, 0));
}

/// A million of them are kept.
#[test]
fn a_written_report_is_small() {
    let size = size_of::<(Id, Kept<Beat>)>();
    assert!(size <= 112, "{size}");
}
