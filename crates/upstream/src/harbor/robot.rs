//! Robot accounts: their permissions, names and expiry.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Secret, name};

/// The level of our robots: one robot pulls from several projects.
pub(super) const SYSTEM: &str = "system";

/// The name of the robot of a satellite, without the prefix that Harbor puts in front of it.
///
/// Harbor's names are stricter than ours. Each satellite's name has a different robot name, and a valid one
/// stays the same.
#[must_use]
pub fn robot_name(satellite: &str) -> String {
    name::legal(satellite)
}

/// A robot as Harbor has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Robot {
    /// Its number.
    pub id: i64,
    /// Its name with Harbor's prefix, used to log in.
    pub name: String,
    /// `system`, or `project`.
    #[serde(default)]
    pub level: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Whether it is locked out.
    #[serde(default)]
    pub disable: bool,
    /// How many days it lives, counted from its creation.
    #[serde(default, rename = "duration")]
    pub lifetime: Lifetime,
    /// When it ends, in seconds since 1970; -1 for never.
    #[serde(default)]
    pub expires_at: i64,
    /// When it was made.
    pub creation_time: Timestamp,
    /// What it may do.
    #[serde(default)]
    pub permissions: Vec<Permission>,
}

/// A robot to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRobot {
    /// Its name without the prefix; see [`robot_name`].
    pub name: String,
    /// What it is for.
    pub description: String,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Its permissions; never empty.
    pub permissions: Vec<Permission>,
}

/// A robot that was made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Created {
    /// Its number.
    pub id: i64,
    /// Its name with Harbor's prefix, used to log in.
    pub name: String,
    /// Its secret, which Harbor shows only now.
    pub secret: Secret,
    /// When it was made.
    pub creation_time: Timestamp,
    /// When it ends, in seconds since 1970; -1 for never.
    pub expires_at: i64,
}

/// All changeable fields of a robot. There is no default: a field left out would be changed too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What it is for.
    pub description: String,
    /// Whether it is locked out.
    pub disable: bool,
    /// How long it lives, counted from its creation.
    pub lifetime: Lifetime,
    /// Its permissions; never empty.
    pub permissions: Vec<Permission>,
}

/// The permissions of a robot in one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// `project`, or `system`.
    pub kind: String,
    /// The name of the project.
    pub namespace: String,
    /// Its permissions there.
    #[serde(default)]
    pub access: Vec<Access>,
}

/// A permitted action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The resource.
    pub resource: String,
    /// The action.
    pub action: String,
}

impl Permission {
    /// Reading and pulling in a project: all that a satellite needs.
    #[must_use]
    pub fn pull(project: &str) -> Self {
        let access = [("artifact", "read"), ("repository", "read"), ("repository", "pull")];
        let access = access
            .map(|(resource, action)| Access { resource: resource.to_owned(), action: action.to_owned() });
        Self { kind: "project".to_owned(), namespace: project.to_owned(), access: access.to_vec() }
    }
}

/// How long a robot lives, counted from its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Option<i64>")]
pub enum Lifetime {
    /// It has no end.
    #[default]
    Endless,
    /// So many days, at least one.
    Days(u32),
}

/// Harbor takes fewer days than this.
const MOST_DAYS: u32 = i32::MAX as u32 - 1;

impl Lifetime {
    /// Harbor's number for it.
    #[must_use]
    pub fn days(self) -> i64 {
        match self {
            Self::Endless => -1,
            Self::Days(days) => i64::from(days.clamp(1, MOST_DAYS)),
        }
    }
}

impl From<Option<i64>> for Lifetime {
    fn from(days: Option<i64>) -> Self {
        days.and_then(|days| u32::try_from(days).ok()).map_or(Self::Endless, Self::Days)
    }
}

/// The lifetime with which a robot lives until `until`; nothing when it does so already.
///
/// A new secret does not move the end of a robot, nor does the time of an update: only a larger number of days,
/// counted from the robot's creation, does.
#[must_use]
pub fn extension(created: Timestamp, lifetime: Lifetime, until: Timestamp) -> Option<Lifetime> {
    const DAY: SignedDuration = SignedDuration::from_hours(24);
    let Lifetime::Days(days) = lifetime else { return None };
    let age = until.duration_since(created);
    // A part of a day needs a whole one.
    let needed = age.as_secs().div_euclid(DAY.as_secs())
        + i64::from(age.as_secs().rem_euclid(DAY.as_secs()) > 0 || age.subsec_nanos() > 0);
    let needed = u32::try_from(needed.max(1)).unwrap_or(MOST_DAYS).min(MOST_DAYS);
    (needed > days).then_some(Lifetime::Days(needed))
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{Lifetime, extension};

    const CREATED: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[track_caller]
    fn check(days: u32, until: SignedDuration, expected: Option<u32>) {
        let found = extension(CREATED, Lifetime::Days(days), CREATED + until);
        assert_eq!(found, expected.map(Lifetime::Days));
    }

    #[test]
    fn the_end_moves_only_when_it_must_and_far_enough() {
        let day = |days: i64| SignedDuration::from_hours(24 * days);
        check(30, day(30), None);
        check(30, day(30) + SignedDuration::from_nanos(1), Some(31));
        check(30, day(31), Some(31));
        check(30, day(45) + SignedDuration::from_hours(1), Some(46));
        check(30, day(-3), None);
        check(0, day(0), Some(1));
        assert_eq!(extension(CREATED, Lifetime::Endless, CREATED + day(9999)), None);
    }

    #[test]
    fn whatever_is_asked_for_is_reached_within_a_day() {
        for hours in (0..5000).step_by(7) {
            let until = CREATED + SignedDuration::from_hours(hours);
            let Some(Lifetime::Days(days)) = extension(CREATED, Lifetime::Days(3), until) else { continue };
            let end = CREATED + SignedDuration::from_hours(24 * i64::from(days));
            assert!(end >= until && end.duration_since(until) < SignedDuration::from_hours(24));
        }
    }

    #[test]
    fn lifetimes_are_days_or_none() {
        assert_eq!(Lifetime::from(Some(-1)), Lifetime::Endless);
        assert_eq!(Lifetime::from(Some(30)), Lifetime::Days(30));
        assert_eq!(Lifetime::from(None), Lifetime::Endless);
        assert_eq!(Lifetime::Days(0).days(), 1);
        assert_eq!(Lifetime::Endless.days(), -1);
    }
}
