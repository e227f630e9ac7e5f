//! Windows of time in which a device may download or change: five fields of cron, and how long the window stays open.

use std::{fs, path::Path, time::Duration};

use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};
use wardroom_api::device::Schedule;

use super::hooks::duration;

/// The longest window: a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A window that comes again.
#[derive(Debug)]
pub(crate) struct Window {
    fields: [Field; 5],
    zone: TimeZone,
    open: Duration,
}

/// The values that a field of cron allows.
#[derive(Debug)]
struct Field {
    allowed: Vec<i8>,
    is_any: bool,
}

/// The fields of cron with the range of their values.
const FIELDS: [(&str, i8, i8); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7)];

impl Window {
    pub(crate) fn read(schedule: &Schedule) -> Result<Self, String> {
        let given: Vec<_> = schedule.at.split_whitespace().collect();
        let given: [&str; 5] = given.try_into().map_err(|_| {
            format!("at: {:?} has not the five fields of cron, as in `0 2 * * *`", schedule.at)
        })?;
        let mut fields = Vec::new();
        for (text, (name, first, last)) in given.into_iter().zip(FIELDS) {
            let field = Field::read(text, first, last);
            fields.push(field.ok_or_else(|| format!("at: {text:?} is no {name} from {first} to {last}"))?);
        }
        let open = duration(&schedule.start_grace_duration)
            .map_err(|error| format!("startGraceDuration: {error}"))?;
        if open.is_zero() || open > LONGEST {
            return Err("startGraceDuration: expected more than 0 and at most 24h".to_owned());
        }
        let zone = zone(schedule.time_zone.as_deref())?;
        let fields = fields.try_into().map_err(|_| "at: five fields are needed".to_owned())?;
        Ok(Self { fields, zone, open })
    }

    /// Returns whether a window has opened that is still open.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        let minutes = i64::try_from(self.open.as_secs().div_ceil(60)).unwrap_or(i64::MAX);
        (0..=minutes).any(|ago| {
            let Ok(then) = now.checked_sub(SignedDuration::from_mins(ago)) else { return false };
            let then = then.to_zoned(self.zone.clone());
            let opened = then.with().second(0).subsec_nanosecond(0).build().unwrap_or(then);
            self.opens_at(&opened) && now.duration_since(opened.timestamp()).unsigned_abs() < self.open
        })
    }

    /// As cron has it: where both days are restricted, either of them suffices.
    fn opens_at(&self, at: &Zoned) -> bool {
        let [minute, hour, day, month, weekday] = &self.fields;
        let of_week = at.weekday().to_sunday_zero_offset();
        let is_weekday = weekday.has(of_week) || (of_week == 0 && weekday.has(7));
        let is_day = match (day.is_any, weekday.is_any) {
            (false, false) => day.has(at.day()) || is_weekday,
            (_, _) => day.has(at.day()) && is_weekday,
        };
        minute.has(at.minute()) && hour.has(at.hour()) && month.has(at.month()) && is_day
    }
}

impl Field {
    /// Reads `*`, `5`, `1-5`, `*/15`, `0-30/10`, and lists of these.
    fn read(text: &str, first: i8, last: i8) -> Option<Self> {
        let mut allowed = Vec::new();
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, step.parse::<usize>().ok().filter(|step| *step > 0)?),
                None => (part, 1),
            };
            let (from, to) = match range.split_once('-') {
                None if range == "*" => (first, last),
                None => (range.parse().ok()?, range.parse().ok()?),
                Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
            };
            if from < first || to > last || from > to {
                return None;
            }
            allowed.extend((from..=to).step_by(step));
        }
        Some(Self { allowed, is_any: text == "*" })
    }

    fn has(&self, value: i8) -> bool {
        self.allowed.contains(&value)
    }
}

/// Where systems keep their time zones.
const ZONES: &str = "/usr/share/zoneinfo";

/// Reads a time zone; that of the device when absent.
fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let path = match name {
        None | Some("" | "Local") => Path::new("/etc/localtime").to_owned(),
        Some("UTC" | "Etc/UTC") => return Ok(TimeZone::UTC),
        Some(name) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
            if !name.chars().all(is_plain) || name.starts_with('/') {
                return Err(format!("timeZone: {name:?} is no time zone such as Europe/Berlin"));
            }
            Path::new(ZONES).join(name)
        }
    };
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        // A device without a zone of its own is in UTC.
        Err(_) if name.is_none() => return Ok(TimeZone::UTC),
        Err(error) => return Err(format!("timeZone: cannot read {}: {error}", path.display())),
    };
    TimeZone::tzif(name.unwrap_or("Local"), &bytes)
        .map_err(|error| format!("timeZone: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(at: &str, open: &str) -> Schedule {
        let (at, start_grace_duration) = (at.to_owned(), open.to_owned());
        Schedule { at, time_zone: Some("UTC".to_owned()), start_grace_duration }
    }

    fn check(at: &str, open: &str, now: &str, expected: bool) {
        let window = Window::read(&schedule(at, open)).unwrap();
        assert_eq!(window.is_open(now.parse().unwrap()), expected, "{at} for {open} at {now}");
    }

    #[test]
    fn a_window_opens_when_cron_says_and_closes_after_its_time() {
        check("0 2 * * *", "2h", "2026-11-19T01:59:59Z", false);
        check("0 2 * * *", "2h", "2026-11-19T02:00:00Z", true);
        check("0 2 * * *", "2h", "2026-11-19T03:59:59Z", true);
        check("0 2 * * *", "2h", "2026-11-19T04:00:00Z", false);
        check("0 23 * * *", "2h", "2026-11-20T00:30:00Z", true);
        // 2026-11-19 is a Thursday.
        check("0 2 * * 4", "1h", "2026-11-19T02:10:00Z", true);
        check("0 2 * * 1-3", "1h", "2026-11-19T02:10:00Z", false);
        check("0 2 * * 7", "1h", "2026-11-22T02:10:00Z", true);
        check("0 2 19 * 1", "1h", "2026-11-19T02:10:00Z", true);
        check("*/15 * * 11 *", "30s", "2026-11-19T02:45:20Z", true);
        check("*/15 * * 11 *", "30s", "2026-11-19T02:45:40Z", false);
        check("0,30 8-17/3 * * *", "10m", "2026-11-19T11:35:00Z", true);
        check("0,30 8-17/3 * * *", "10m", "2026-11-19T12:05:00Z", false);
    }

    #[test]
    fn a_wrong_schedule_names_its_field() {
        for (at, open, field) in [
            ("0 2 * *", "1h", "at"),
            ("60 2 * * *", "1h", "minute"),
            ("0 2-1 * * *", "1h", "hour"),
            ("0 2 0 * *", "1h", "day of month"),
            ("0 2 * 13 *", "1h", "month"),
            ("0 2 * * */0", "1h", "day of week"),
            ("0 2 * * *", "soon", "startGraceDuration"),
            ("0 2 * * *", "25h", "startGraceDuration"),
        ] {
            let error = Window::read(&schedule(at, open)).unwrap_err();
            assert!(error.contains(field), "{at} {open}: {error}");
        }
        let elsewhere =
            |zone: &str| Schedule { time_zone: Some(zone.to_owned()), ..schedule("0 2 * * *", "1h") };
        for zone in ["No/Where", "../../etc/passwd", "/etc/localtime"] {
            assert!(Window::read(&elsewhere(zone)).unwrap_err().contains("timeZone"), "{zone}");
        }
    }
}
