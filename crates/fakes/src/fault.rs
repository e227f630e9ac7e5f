//! Faults to order, and a count of what was really applied.
//!
//! A fault concerns one kind of call and happens a number of times. Its kinds differ by what a
//! caller can know: after a status or a hang nothing was applied, after a lost or slow reply it was.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;

mod clock;
pub(crate) mod control;
pub(crate) mod serve;
mod snapshot;

pub(crate) use clock::Clock;
pub(crate) use snapshot::Snapshot;

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Refused with a status before anything is applied.
    Status(u16),
    /// Never answered, and nothing is applied.
    Hang,
    /// Applied; then the connection is cut instead of an answer.
    LostReply,
    /// Applied; the answer comes later.
    Slow(Duration),
}

/// An order for a fault, as the control endpoint takes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The call, such as `POST /robots` or `BatchCreateEntry`; everything below a path counts as well.
    pub on: String,
    /// A status such as `500`, or `hang`, `lost_reply`, `slow`.
    pub kind: String,
    /// How often it happens.
    #[serde(default = "once")]
    pub times: u32,
    /// How slow a slow answer is.
    #[serde(default = "a_while")]
    pub delay_ms: u64,
}

fn once() -> u32 {
    1
}

fn a_while() -> u64 {
    1_000
}

impl Order {
    /// Returns a fault that happens once.
    #[must_use]
    pub fn once(on: &str, kind: &str) -> Self {
        Self { on: on.to_owned(), kind: kind.to_owned(), times: once(), delay_ms: a_while() }
    }

    fn kind(&self) -> Result<Kind, String> {
        match self.kind.as_str() {
            "hang" => Ok(Kind::Hang),
            "lost_reply" => Ok(Kind::LostReply),
            "slow" => Ok(Kind::Slow(Duration::from_millis(self.delay_ms))),
            status => match status.parse() {
                Ok(status @ 400..=599) => Ok(Kind::Status(status)),
                _ => Err(format!("{status:?} is no status of a failure, nor hang, lost_reply or slow")),
            },
        }
    }
}

/// A connection is to be cut.
#[derive(Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut, as ordered")
    }
}

impl std::error::Error for Cut {}

/// The ordered faults of one fake, and its effects.
#[derive(Debug, Default)]
pub struct Faults {
    orders: Mutex<Vec<(Order, Kind)>>,
    effects: Mutex<BTreeMap<String, u64>>,
}

impl Faults {
    /// Takes an order; faults of one call happen in the order they were given.
    ///
    /// # Errors
    /// When the kind is unknown.
    pub fn order(&self, order: Order) -> Result<(), String> {
        let kind = order.kind()?;
        lock(&self.orders).push((order, kind));
        Ok(())
    }

    /// Removes all orders.
    pub fn clear(&self) {
        lock(&self.orders).clear();
    }

    /// Returns the number of orders that are not used up.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.orders).len()
    }

    /// Returns the effects and their counts.
    #[must_use]
    pub fn effects(&self) -> BTreeMap<String, u64> {
        lock(&self.effects).clone()
    }

    /// Returns the count of one effect.
    #[must_use]
    pub fn count(&self, effect: &str) -> u64 {
        lock(&self.effects).get(effect).copied().unwrap_or_default()
    }

    /// Counts an effect.
    pub(crate) fn applied(&self, effect: &str) {
        *lock(&self.effects).entry(effect.to_owned()).or_default() += 1;
    }

    fn take(&self, call: &str) -> Option<Kind> {
        let mut orders = lock(&self.orders);
        let is_meant = |order: &Order| {
            call.strip_prefix(order.on.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let position = orders.iter().position(|(order, _)| order.times > 0 && is_meant(order))?;
        orders[position].0.times -= 1;
        let kind = orders[position].1;
        orders.retain(|(order, _)| order.times > 0);
        Some(kind)
    }

    /// Answers a call, or carries out its ordered fault.
    pub(crate) async fn through<T>(
        &self,
        call: &str,
        apply: impl Future<Output = T>,
        refuse: impl FnOnce(u16) -> T,
    ) -> Result<T, Cut> {
        match self.take(call) {
            None => Ok(apply.await),
            Some(Kind::Status(status)) => Ok(refuse(status)),
            Some(Kind::Hang) => std::future::pending().await,
            Some(Kind::LostReply) => {
                apply.await;
                Err(Cut)
            }
            Some(Kind::Slow(delay)) => {
                let answer = apply.await;
                tokio::time::sleep(delay).await;
                Ok(answer)
            }
        }
    }
}

/// A fake continues after a panic in one request: its state is consistent between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn random(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).expect("the system has random numbers");
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Faults, Kind, Order};

    #[test]
    fn faults_come_up_as_often_as_ordered_and_where() {
        let faults = Faults::default();
        faults.order(Order { times: 2, ..Order::once("PUT /robots", "500") }).unwrap();
        faults.order(Order::once("PUT /robots", "hang")).unwrap();
        assert_eq!(faults.take("GET /robots"), None);
        assert_eq!(faults.take("PUT /robotsmore"), None);
        let taken: Vec<_> = (0..4).map(|_| faults.take("PUT /robots/7")).collect();
        assert_eq!(taken, [Some(Kind::Status(500)), Some(Kind::Status(500)), Some(Kind::Hang), None]);
    }

    #[test]
    fn unknown_kinds_are_refused() {
        for kind in ["200", "700", "explode", ""] {
            assert!(Faults::default().order(Order::once("GET /", kind)).is_err(), "{kind}");
        }
    }
}
