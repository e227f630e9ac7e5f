//! Inputs that no client would send, made from ones that clients do send; the same in every run.
//!
//! What must stay true: whatever comes in, the server refuses it by a field, or takes it; it neither panics nor blames itself.

use std::fmt::Debug;

use serde_json::{Value, json};

use crate::platform::http::error::Error;

/// How many inputs of each sort are tried: more under `./dev fuzz`.
pub(super) fn rounds() -> usize {
    std::env::var("WARDROOM_FUZZ_ROUNDS").map_or(2000, |rounds| rounds.parse().expect("a number"))
}

/// Numbers that look random (xorshift), from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % end.max(1)
    }

    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Words that break parsers.
const WORDS: &[&str] = &[
    "",
    " ",
    "\0",
    "..",
    "/",
    "/../x",
    "//",
    "/a/b/c",
    "a/b",
    "é",
    "\u{202e}",
    "%00",
    "True",
    "null",
    "-1",
    "0",
    "1e999",
    "18446744073709551616",
    "101%",
    "-5%",
    "10%",
    "1h",
    "-1h",
    "9999999h",
    "P1D",
    "1h 30m",
    "0s",
    "* * * * *",
    "Critical",
    "Error",
    "container",
    "compose",
    "base64",
    "====",
    "Fleet/x",
    "(",
    ")",
    "in",
    ",",
    "=",
    "!",
    "\n",
    "\"",
    "\\u0000",
];

fn value(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(1.5e300),
        6 => json!([]),
        7 => json!({}),
        8 => json!("x".repeat(1 << random.below(13))),
        9 => json!([[[[]]]]),
        _ => json!(random.pick(WORDS)),
    }
}

/// A sample with up to four changes somewhere in it.
pub(super) fn mutated(sample: &Value, random: &mut Random) -> Value {
    let mut changed = sample.clone();
    for _ in 0..=random.below(4) {
        change(&mut changed, random);
    }
    changed
}

fn change(place: &mut Value, random: &mut Random) {
    // Deeper as often as not, so that every level is met.
    let goes_deeper = random.below(5) > 0;
    if let Some(fields) = place.as_object_mut().filter(|fields| goes_deeper && !fields.is_empty()) {
        let names: Vec<_> = fields.keys().cloned().collect();
        let name = random.pick(&names);
        match random.below(8) {
            0 => drop(fields.remove(name)),
            1 => {
                let moved = fields.remove(name).unwrap_or_default();
                fields.insert((*random.pick(WORDS)).to_owned(), moved);
            }
            _ => change(&mut fields[name], random),
        }
    } else if let Some(list) = place.as_array_mut().filter(|list| goes_deeper && !list.is_empty()) {
        let at = random.below(list.len());
        match random.below(6) {
            0 => drop(list.remove(at)),
            1 => list.push(list[at].clone()),
            _ => change(&mut list[at], random),
        }
    } else {
        *place = value(random);
    }
}

/// A text of some of these parts.
pub(super) fn text(parts: &[&str], random: &mut Random) -> String {
    let count = 1 + random.below(8);
    (0..count).map(|_| if random.below(6) == 0 { *random.pick(WORDS) } else { *random.pick(parts) }).collect()
}

/// Returns what was taken, if it was; a refusal must be the caller's fault.
pub(super) fn judged<T>(result: Result<T, Error>, input: &impl Debug) -> Option<T> {
    match result {
        Ok(taken) => Some(taken),
        Err(error) => {
            assert!(error.status().as_u16() < 500, "{error}: {input:?}");
            None
        }
    }
}
