//! How silence is judged, from the configuration.

use std::{num::NonZeroU32, time::Duration};

use jiff::SignedDuration;
use serde::Deserialize;
use wardroom_core::liveness::{Interval, Limits, Policy};

/// How silence is judged.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much silence is accepted.
    pub policy: Policy,
    /// When to hold silent members, and how fast to release them.
    pub limits: Limits,
    /// The interval of a member that states none.
    pub interval: Interval,
    /// The spread of the next interval, in percent.
    pub jitter: u32,
    /// The label that names a member's zone.
    pub zone_label: String,
    /// How often silence is judged.
    pub sweep: Duration,
    /// How often beats are stored.
    pub flush: Duration,
    /// A beat is stored once it is newer than the stored one by this much.
    pub granularity: Duration,
    /// Whether other servers may receive heartbeats too.
    pub shared: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawSettings {
    missed_beats: u32,
    default_threshold_minutes: u32,
    default_interval_seconds: u32,
    jitter_percent: u32,
    grace_seconds: u32,
    zone_label: String,
    hold_members: u32,
    hold_minutes: u32,
    release_per_second: u32,
    window_minutes: u32,
    sweep_seconds: u32,
    flush_seconds: u32,
    flush_seconds_shared: u32,
    pub(crate) test_clock_file: String,
}

/// The flush period of a single server.
const ALONE: Duration = Duration::from_secs(5);

impl RawSettings {
    pub(crate) fn resolve(self, shared: bool) -> Result<Settings, String> {
        let positive = |key: &str, value: u32| {
            NonZeroU32::new(value).ok_or_else(|| format!("liveness.{key}: must be at least 1"))
        };
        let interval = Interval::from_seconds(self.default_interval_seconds)
            .ok_or("liveness.default_interval_seconds: must be between 1 and 604800")?;
        if self.jitter_percent > 10 {
            return Err("liveness.jitter_percent: must be at most 10".to_owned());
        }
        let flush = if shared {
            positive("flush_seconds_shared", self.flush_seconds_shared)?
        } else {
            positive("flush_seconds", self.flush_seconds)?
        };
        let sweep = positive("sweep_seconds", self.sweep_seconds)?.get();
        let flush = Duration::from_secs(flush.get().into());
        // Other servers judge by the table, so every beat is stored. A single server stores a part of the
        // members at a time // instead of all at once.
        let (flush, granularity) = if shared { (flush, Duration::ZERO) } else { (flush.min(ALONE), flush) };
        Ok(Settings {
            policy: Policy {
                beats: positive("missed_beats", self.missed_beats)?,
                fallback: minutes(
                    positive("default_threshold_minutes", self.default_threshold_minutes)?.get(),
                ),
                least: SignedDuration::ZERO,
                settle: seconds(self.grace_seconds),
            },
            limits: Limits {
                members: self.hold_members,
                hold: minutes(self.hold_minutes),
                rate: positive("release_per_second", self.release_per_second)?,
                window: minutes(positive("window_minutes", self.window_minutes)?.get()),
            },
            interval,
            jitter: self.jitter_percent,
            zone_label: self.zone_label,
            sweep: Duration::from_secs(sweep.into()),
            flush,
            granularity,
            shared,
        })
    }
}

fn seconds(count: u32) -> SignedDuration {
    SignedDuration::from_secs(count.into())
}

fn minutes(count: u32) -> SignedDuration {
    seconds(count).saturating_mul(60)
}
