//! A scripted upstream: it keeps what was done to it, counts, and fails as it is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};
use wardroom_core::run::{failure::Class, plan::Stage};
use wardroom_workflow::{Attempt, Data, Limits, Lost, Outcome, Rate, Stages};

/// What a stage does instead of what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server dies before anything was intended.
    DieAtOnce,
    /// The server dies when the intent is saved.
    DieIntending,
    /// The server crashes after the effect, before it is recorded.
    DieAfterwards,
    /// The effect happens, and the reply is lost.
    LoseReply,
    /// Nothing happens.
    Fail(Class),
    /// It has to be waited for.
    Wait,
    /// The upstream is overloaded, and says after how many minutes to ask again; at once, after none.
    Busy(i64),
    /// It breaks as the detour repairs.
    Break,
    /// A person has to decide.
    NeedOperator,
    /// The node must not be used.
    Unsafe,
    /// The code panics.
    Panic,
    /// It stands still until the gate is opened, and then continues.
    Stand,
    /// It takes so many milliseconds.
    Slow(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    Perform,
    Undo,
}

#[derive(Debug, Default)]
struct Inner {
    applied: BTreeSet<(String, Stage)>,
    effects: BTreeMap<(String, Stage), u32>,
    undone: Vec<(String, Stage)>,
    twice: Vec<(String, Stage)>,
    faults: Vec<(String, Stage, Doing, Fault, u32)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    inner: Arc<Mutex<Inner>>,
    pub(crate) died: Arc<Notify>,
    pub(crate) standing: Arc<Notify>,
    pub(crate) gate: Arc<Gate>,
    /// How often all stages together may call out.
    pub(crate) rate: Option<Rate>,
    /// How often the upstream of any site may be called, which is said when the site is met.
    pub(crate) pace: Option<(Limits, Rate)>,
    /// How many executions are under way, and how many were at most.
    pub(crate) inside: Arc<(AtomicUsize, AtomicUsize)>,
}

#[derive(Debug)]
pub(crate) struct Gate(pub(crate) Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

/// What the stages of the tests know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) given: String,
    pub(crate) intends: Option<Stage>,
    pub(crate) done: Vec<Stage>,
}

impl Data for Known {
    type Subject = crate::subject::GpuNode;

    fn restarted(&self) -> Self {
        Self { given: self.given.clone(), ..Self::default() }
    }
}

impl World {
    /// The next `times` times that this is done to the node, it goes wrong.
    pub(crate) fn plan(&self, node: &str, stage: Stage, doing: Doing, fault: Fault, times: u32) {
        self.inner.lock().unwrap().faults.push((node.to_owned(), stage, doing, fault, times));
    }

    pub(crate) fn heal(&self, node: &str) {
        self.inner.lock().unwrap().faults.retain(|(other, ..)| other != node);
    }

    fn fault(&self, node: &str, stage: Stage, doing: Doing) -> Option<Fault> {
        let mut inner = self.inner.lock().unwrap();
        let fault = inner
            .faults
            .iter_mut()
            .find(|(at, when, what, _, left)| at == node && *when == stage && *what == doing && *left > 0)?;
        fault.4 -= 1;
        Some(fault.3)
    }

    fn is_applied(&self, node: &str, stage: Stage) -> bool {
        self.inner.lock().unwrap().applied.contains(&(node.to_owned(), stage))
    }

    fn apply(&self, node: &str, stage: Stage) {
        let mut inner = self.inner.lock().unwrap();
        let effect = (node.to_owned(), stage);
        *inner.effects.entry(effect.clone()).or_default() += 1;
        if !inner.applied.insert(effect.clone()) {
            inner.twice.push(effect);
        }
    }

    fn take_back(&self, node: &str, stage: Stage) {
        let mut inner = self.inner.lock().unwrap();
        let effect = (node.to_owned(), stage);
        if inner.applied.remove(&effect) {
            inner.undone.push(effect);
        }
    }

    /// What was applied to the node while it was applied already.
    pub(crate) fn twice(&self, node: &str) -> Vec<Stage> {
        let inner = self.inner.lock().unwrap();
        inner.twice.iter().filter(|(at, _)| at == node).map(|(_, stage)| *stage).collect()
    }

    /// How often each effect happened to the node.
    pub(crate) fn effects(&self, node: &str) -> BTreeMap<Stage, u32> {
        let inner = self.inner.lock().unwrap();
        inner.effects.iter().filter(|((at, _), _)| at == node).map(|((_, stage), n)| (*stage, *n)).collect()
    }

    /// What stands, of what can be undone.
    pub(crate) fn reversible(&self, node: &str) -> Vec<Stage> {
        let inner = self.inner.lock().unwrap();
        let standing = inner.applied.iter().filter(|(at, stage)| at == node && stage.undo().is_some());
        standing.map(|(_, stage)| *stage).collect()
    }

    /// What was undone, in order.
    pub(crate) fn undone(&self, node: &str) -> Vec<Stage> {
        let inner = self.inner.lock().unwrap();
        inner.undone.iter().filter(|(at, _)| at == node).map(|(_, stage)| *stage).collect()
    }

    async fn die<T>(&self) -> T {
        self.died.notify_one();
        std::future::pending().await
    }

    /// What goes wrong before anything happened.
    async fn early(&self, fault: Option<Fault>, attempt: &Attempt<'_, Known>) -> Option<Outcome<Known>> {
        let text = || "as scripted".to_owned();
        match fault? {
            Fault::DieAtOnce => self.die().await,
            Fault::Fail(class) => Some(Outcome::Retry { class, evidence: text(), after: None }),
            Fault::Wait => {
                let until = attempt.now + SignedDuration::from_millis(1);
                Some(Outcome::Wait { reason: text(), until })
            }
            Fault::Busy(minutes) => {
                let until = attempt.now + SignedDuration::from_mins(minutes) + SignedDuration::from_millis(1);
                // Another reason for each thing that was asked for.
                let asked = attempt.now.as_millisecond() % 2;
                Some(Outcome::Busy { reason: format!("{asked}: busy as scripted"), until })
            }
            Fault::Break => Some(Outcome::Broken { data: attempt.data.clone(), evidence: text() }),
            Fault::NeedOperator => Some(Outcome::NeedsOperator { reason: text() }),
            Fault::Unsafe => Some(Outcome::Unsafe { reason: text() }),
            Fault::Panic => panic!("as scripted"),
            Fault::Stand => {
                self.standing.notify_one();
                self.gate.0.acquire().await.unwrap().forget();
                None
            }
            Fault::Slow(millis) => {
                tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
                None
            }
            Fault::DieIntending | Fault::DieAfterwards | Fault::LoseReply => None,
        }
    }

    /// What goes wrong when everything has happened.
    async fn late(&self, fault: Option<Fault>) -> Option<Outcome<Known>> {
        if fault == Some(Fault::DieAfterwards) {
            self.die::<()>().await;
        }
        let lost = fault == Some(Fault::LoseReply);
        lost.then(|| Outcome::Retry { class: Class::Retryable, evidence: "no reply".to_owned(), after: None })
    }
}

impl World {
    async fn act(&self, mut attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        let (node, stage) = (attempt.subject.to_owned(), attempt.stage);
        if let Some(rate) = self.rate {
            attempt.limits.take("upstream", rate).await;
        }
        let fault = self.fault(&node, stage, Doing::Perform);
        if let Some(outcome) = self.early(fault, &attempt).await {
            return Ok(outcome);
        }
        if !self.is_applied(&node, stage) {
            attempt.data.intends = Some(stage);
            attempt.save().await?;
            if fault == Some(Fault::DieIntending) {
                self.die::<()>().await;
            }
            self.apply(&node, stage);
            if let Some(outcome) = self.late(fault).await {
                return Ok(outcome);
            }
        }
        let mut data = attempt.data;
        data.intends = None;
        data.done.push(stage);
        Ok(Outcome::Done(data))
    }
}

impl Stages for World {
    type Data = Known;

    async fn meet(&self, site: &str) {
        if let Some((limits, rate)) = &self.pace {
            limits.pace(site, site, *rate);
        }
    }

    async fn perform(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        let (inside, most) = &*self.inside;
        most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let came = self.act(attempt).await;
        inside.fetch_sub(1, Ordering::Relaxed);
        came
    }

    async fn undo(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        let (node, stage) = (attempt.subject, attempt.stage);
        let fault = self.fault(node, stage, Doing::Undo);
        if let Some(outcome) = self.early(fault, &attempt).await {
            return Ok(outcome);
        }
        self.take_back(node, stage);
        if let Some(outcome) = self.late(fault).await {
            return Ok(outcome);
        }
        Ok(Outcome::Done(attempt.data))
    }
}

#[expect(clippy::disallowed_methods, reason = "tests wait for real time")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
