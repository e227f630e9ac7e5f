//! A slow MAAS: a limited number of requests per second.

use std::time::{Duration, Instant};

/// What happens to requests above the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// They wait for their turn, as with a busy MAAS.
    Delay,
    /// They are answered with 503 and `Retry-After`, as by a proxy in front of it.
    Refuse,
    /// They are answered with 429 and `Retry-After`, as by another proxy.
    TooMany,
}

/// The burst of requests allowed before some are refused.
const BURST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Limit {
    free: Option<Instant>,
}

/// The treatment of one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Wait(Duration),
    Refused(u16),
}

impl Limit {
    pub(super) fn turn(&mut self, rate: u32, over: OverLimit, now: Instant) -> Turn {
        let free = self.free.map_or(now, |free| free.max(now));
        let wait = free - now;
        let status = match over {
            OverLimit::Delay => None,
            OverLimit::Refuse => Some(503),
            OverLimit::TooMany => Some(429),
        };
        if let Some(status) = status.filter(|_| wait > BURST) {
            return Turn::Refused(status);
        }
        self.free = Some(free + Duration::from_secs(1) / rate.max(1));
        Turn::Wait(if status.is_some() { Duration::ZERO } else { wait })
    }
}
