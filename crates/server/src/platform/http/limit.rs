//! Rate limits: a bucket for each identity and class of route, so that no caller can use up another's share.

use std::{
    collections::HashMap,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

use crate::platform::{
    config::Config,
    http::{
        access::{Class, Route},
        error::Error,
    },
    identity::auth::{Caller, Principal},
};

type Buckets = DefaultKeyedRateLimiter<(Class, String)>;

pub(crate) struct Limiter {
    read: Option<Buckets>,
    write: Option<Buckets>,
    report: Option<Buckets>,
    anonymous: Option<Buckets>,
    /// Registrations, by address: only against a flood, because a satellite with a token must get through.
    register: Buckets,
    failures: Failures,
}

/// Registrations per second from one address; a whole site behind one address may register at once.
const REGISTRATIONS: NonZeroU32 = NonZeroU32::new(2000).expect("is not zero");

impl Limiter {
    pub(crate) fn new(config: &Config) -> Self {
        let per_second =
            |count| NonZeroU32::new(count).map(|count| RateLimiter::keyed(Quota::per_second(count)));
        let limits = config.limits;
        Self {
            read: per_second(limits.read),
            write: per_second(limits.write),
            report: per_second(limits.report),
            anonymous: per_second(limits.anonymous),
            register: RateLimiter::keyed(Quota::per_second(REGISTRATIONS)),
            failures: Failures { most: limits.anonymous, counts: Mutex::default() },
        }
    }

    pub(crate) fn check(&self, route: &Route, caller: &Caller) -> Result<(), Error> {
        if route.class == Class::Health {
            return Ok(());
        }
        if route.class == Class::Register {
            return until(self.register.check_key(&(route.class, caller.address.to_string())));
        }
        let address = || caller.address.to_string();
        let (buckets, identity) = match &caller.principal {
            Principal::Token(identity) => (self.of(route.class), identity.id.clone()),
            Principal::Member(member) => match member.bucket() {
                Some(name) => (self.of(route.class), name.to_owned()),
                None => (self.of(Class::Report), address()),
            },
            Principal::Anonymous => (&self.anonymous, address()),
        };
        let Some(buckets) = buckets else { return Ok(()) };
        until(buckets.check_key(&(route.class, identity)))
    }

    /// Counts a refused request of a recognised caller.
    pub(crate) fn check_revoked(
        &self,
        route: &Route,
        name: Option<&str>,
        caller: &Caller,
    ) -> Result<(), Error> {
        match (self.of(route.class), name) {
            (Some(buckets), Some(name)) => {
                until(buckets.check_key(&(route.class, format!("revoked {name}"))))
            }
            (None, Some(_)) => Ok(()),
            (_, None) => self.check(route, caller),
        }
    }

    /// Counts a registration that failed: by address, and by the first letters of the token, which all
    /// attempts at one token share. Only failures count, so that a guessing neighbour cannot keep others from
    /// registering.
    pub(crate) fn check_guess(&self, from: IpAddr, token: &str) -> Result<(), Error> {
        let Some(buckets) = &self.anonymous else { return Ok(()) };
        let prefix: String = token.chars().take(8).collect();
        until(buckets.check_key(&(Class::Register, from.to_string())))?;
        until(buckets.check_key(&(Class::Register, format!("prefix {prefix}"))))
    }

    /// Whether an address failed so often that its lookups must wait for a turn.
    pub(crate) fn has_failed_a_lot(&self, from: IpAddr, now: Instant) -> bool {
        self.failures.are_many(from, now)
    }

    /// Counts a credential that was not accepted.
    pub(crate) fn count_failure(&self, from: IpAddr, now: Instant) {
        self.failures.count(from, now);
    }

    /// Forgets buckets that are full again.
    pub(crate) fn sweep(&self) {
        for buckets in [&self.read, &self.write, &self.report, &self.anonymous].into_iter().flatten() {
            buckets.retain_recent();
        }
        self.register.retain_recent();
        self.failures.sweep();
    }

    fn of(&self, class: Class) -> &Option<Buckets> {
        match class {
            Class::Read | Class::Health | Class::Register => &self.read,
            Class::Write => &self.write,
            Class::Report => &self.report,
        }
    }
}

type Wait = governor::NotUntil<<DefaultClock as governor::clock::Clock>::Instant>;

/// Refuses with the time to wait.
pub(crate) fn until(checked: Result<(), Wait>) -> Result<(), Error> {
    checked
        .map_err(|until| Error::TooMany(whole_seconds(until.wait_time_from(DefaultClock::default().now()))))
}

/// Failed credentials by address, second by second. Successes are not counted, so a whole site behind one
/// address passes.
struct Failures {
    /// How many a second; 0 for any number.
    most: u32,
    counts: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl Failures {
    fn are_many(&self, from: IpAddr, now: Instant) -> bool {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |(since, count): &(Instant, u32)| is_this_second(*since, now) && *count >= self.most;
        self.most > 0 && counts.get(&from).is_some_and(over)
    }

    fn count(&self, from: IpAddr, now: Instant) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = counts.entry(from).or_insert((now, 0));
        if is_this_second(*since, now) {
            *count = count.saturating_add(1);
        } else {
            (*since, *count) = (now, 1);
        }
    }

    fn sweep(&self) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn is_this_second(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < Duration::from_secs(1)
}

fn whole_seconds(wait: Duration) -> u64 {
    // Rounds up to at least a second: a caller over the limit must not be told to retry at once.
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}
