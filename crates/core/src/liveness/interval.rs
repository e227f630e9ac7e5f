//! Interval: how often a member beats, as reported and as given.
//!
//! On the wire it is the schedule of the satellite client, `@every` and a Go duration. Whatever order of
//! units a client writes, there is one normal form: `@every 00h00m30s`.

use jiff::SignedDuration;

use crate::Invalid;

/// The form that errors ask for.
const ACCEPTED: &str = "expected `@every` and a duration of whole seconds between 1s and 168h, \
                        e.g. `@every 00h00m30s` or `@every 1m30s`";

/// The units of a Go duration, in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000), // U+00B5, the micro sign
    ("μs", 1_000), // U+03BC, the Greek letter: Go reads both
    ("ns", 1),
];

/// The time between two beats: whole seconds, at least one and at most a week.
///
/// The upper bound keeps a member from announcing an interval so long that its death is never noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(u32);

impl Interval {
    /// The longest interval that is accepted: a week.
    pub const LONGEST: Self = Self(168 * 3600);

    /// An interval of so many seconds, if that is an interval.
    #[must_use]
    pub const fn from_seconds(seconds: u32) -> Option<Self> {
        if seconds >= 1 && seconds <= Self::LONGEST.0 { Some(Self(seconds)) } else { None }
    }

    /// Reads `@every <Go duration>`; `field` is where the text came from, for the error.
    ///
    /// # Errors
    ///
    /// Anything but `@every` and a duration of whole seconds between 1s and 168h.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        text.strip_prefix("@every ")
            .and_then(go_nanoseconds)
            .filter(|nanoseconds| nanoseconds.is_multiple_of(1_000_000_000))
            .and_then(|nanoseconds| u32::try_from(nanoseconds / 1_000_000_000).ok())
            .and_then(Self::from_seconds)
            .ok_or_else(|| {
                let given: String = text.chars().take(100).collect();
                Invalid::new(field, format!("cannot use {given:?}: {ACCEPTED}"))
            })
    }

    /// The number of seconds.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.0
    }

    /// The interval as a duration.
    #[must_use]
    pub fn duration(self) -> SignedDuration {
        SignedDuration::from_secs(i64::from(self.0))
    }

    /// The interval spread by up to so many hundredths either way, so that members do not beat together.
    ///
    /// `random` is any number; at most a tenth is spread, as [`Interval::healthy_gap`] allows for.
    #[must_use]
    pub fn spread(self, percent: u32, random: u32) -> Self {
        let percent = percent.min(10);
        let hundredths = u64::from(100 - percent + random % (2 * percent + 1));
        let seconds = (u64::from(self.0) * hundredths + 50) / 100;
        Self(u32::try_from(seconds).unwrap_or(Self::LONGEST.0).clamp(1, Self::LONGEST.0))
    }

    /// As long as so many beats take.
    #[must_use]
    pub fn times(self, beats: u32) -> SignedDuration {
        SignedDuration::from_secs(i64::from(self.0).saturating_mul(i64::from(beats)))
    }

    /// The longest gap between two beats of a member that is well.
    ///
    /// A real client samples its processor for a whole interval before it sends, and so beats at twice the
    /// interval it states; jitter of a tenth comes on top.
    #[must_use]
    pub fn healthy_gap(self) -> SignedDuration {
        SignedDuration::from_millis(i64::from(self.0).saturating_mul(2_200))
    }
}

/// Returns the interval in force: the longer of the stated and the given one.
#[must_use]
pub fn in_force(said: Option<Interval>, given: Option<Interval>) -> Option<Interval> {
    said.max(given)
}

/// The interval in force after a beat: a longer one holds at once, a shorter one once the member keeps it.
///
/// A real client reports a shorter interval at once but keeps the old one until it is restarted; trusting it
/// would make the client stale between two beats. `gap` is the time since the beat before.
#[must_use]
pub fn adopt(before: Option<Interval>, next: Option<Interval>, gap: SignedDuration) -> Option<Interval> {
    match (before, next) {
        (Some(old), Some(new)) if new < old && gap > new.healthy_gap() => before,
        (Some(_), None) => before,
        (Some(_) | None, Some(_)) | (None, None) => next,
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "@every {:02}h{:02}m{:02}s", self.0 / 3600, self.0 / 60 % 60, self.0 % 60)
    }
}

impl serde::Serialize for Interval {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Interval {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse("interval", &text).map_err(serde::de::Error::custom)
    }
}

/// A Go duration without a sign: numbers, each with a unit, in any order.
fn go_nanoseconds(text: &str) -> Option<u128> {
    let mut rest = text;
    let mut total = 0_u128;
    while !rest.is_empty() {
        let number = leading(rest, |c| c.is_ascii_digit() || c == '.');
        rest = &rest[number.len()..];
        let unit = leading(rest, |c| !c.is_ascii_digit() && c != '.');
        rest = &rest[unit.len()..];
        let scale = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        total = total.saturating_add(scaled(number, scale)?);
    }
    (!text.is_empty()).then_some(total)
}

/// A decimal number of units in nanoseconds; too many digits are too long an interval, or too fine a one.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len() > 18 || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let part = digits(fraction)?.saturating_mul(scale) / 10_u128.pow(fraction.len() as u32);
    Some(digits(whole)?.saturating_mul(scale).saturating_add(part))
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
}
