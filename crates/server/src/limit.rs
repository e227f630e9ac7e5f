//! Rate limits: a bucket for each identity and class of route, so that nobody can use up another's.

use std::{net::IpAddr, num::NonZeroU32, time::Duration};

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

use crate::{
    access::{Class, Route},
    auth::{Caller, Who},
    config::Config,
    error::Error,
};

type Buckets = DefaultKeyedRateLimiter<(Class, String)>;

/// All buckets.
pub(crate) struct Limiter {
    read: Option<Buckets>,
    write: Option<Buckets>,
    report: Option<Buckets>,
    anonymous: Option<Buckets>,
    discovery: Option<DefaultKeyedRateLimiter<()>>,
}

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
            discovery: NonZeroU32::new(config.discovery.per_minute)
                .map(|count| RateLimiter::keyed(Quota::per_minute(count))),
        }
    }

    /// Counts a request.
    pub(crate) fn check(&self, route: &Route, caller: &Caller) -> Result<(), Error> {
        if route.class == Class::Health {
            return Ok(());
        }
        let (buckets, identity) = match &caller.who {
            Who::Token(identity) => (self.of(route.class), identity.id.clone()),
            // A secret is no name: machines are told apart by their address until their node is known.
            Who::Machine(_) => (self.of(Class::Report), caller.address.to_string()),
            Who::Nobody => (&self.anonymous, caller.address.to_string()),
        };
        let Some(buckets) = buckets else { return Ok(()) };
        buckets.check_key(&(route.class, identity)).map_err(|until| {
            Error::TooMany(whole_seconds(until.wait_time_from(DefaultClock::default().now())))
        })
    }

    /// Counts the lookup of a token that is not known yet.
    pub(crate) fn check_lookup(&self, from: IpAddr) -> Result<(), Error> {
        let Some(buckets) = &self.anonymous else { return Ok(()) };
        buckets.check_key(&(Class::Read, format!("lookup {from}"))).map_err(|until| {
            Error::TooMany(whole_seconds(until.wait_time_from(DefaultClock::default().now())))
        })
    }

    /// Counts the discovery of an unknown machine.
    pub(crate) fn check_discovery(&self) -> Result<(), Error> {
        let Some(buckets) = &self.discovery else { return Ok(()) };
        buckets.check_key(&()).map_err(|until| {
            Error::TooMany(whole_seconds(until.wait_time_from(DefaultClock::default().now())))
        })
    }

    /// Forgets buckets that are full again.
    pub(crate) fn sweep(&self) {
        for buckets in [&self.read, &self.write, &self.report, &self.anonymous].into_iter().flatten() {
            buckets.retain_recent();
        }
    }

    fn of(&self, class: Class) -> &Option<Buckets> {
        match class {
            Class::Read | Class::Health => &self.read,
            Class::Write => &self.write,
            Class::Report => &self.report,
        }
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
