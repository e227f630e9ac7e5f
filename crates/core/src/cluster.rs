//! Cluster: conditions that adapters report, and what they add up to.
//!
//! A derivation, not a table. Data goes one way:
//!
//! ```text
//! RawReport ─ validate ─▶ Report ─ classify ─▶ upsert ─▶ AdapterStatus ─ fold ─▶ Condition ─ overlay ─▶ view
//!              (400)               (discarded)             (stored)               (stored)    (on read)
//! ```
//!
//! - Reports are ordered by generation, then by the time of observation; of two equals the later arrival wins.
//! - A report replaces what its adapter said before; it never touches what another adapter said.
//! - `Reconciled` speaks of the current generation only, `LastKnownReconciled` of the last one that was good:
//!   it survives a new generation that has not been reached yet.
//! - The fold never reads the clock, so equal facts give equal conditions and a write can be skipped. Silence,
//!   which only the clock can show, is laid over the stored conditions when they are read.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::names;

mod action;
pub mod adapter;
mod classify;
mod fold;
mod last_known;
mod naming;
mod recheck;
mod reconciled;
mod report;
pub mod search;
mod silence;
mod upsert;
mod validate;
mod why;

pub use action::{DELETE, FORCE_DELETE, READ};
pub use classify::{Discard, Verdict, classify};
pub use fold::{all_finalized, fold, is_folded_for};
pub use naming::{check_required, successful_type};
pub use recheck::Recheck;
pub use report::{RawCondition, RawReport, Report, ReportedCondition};
pub use silence::{Heard, Silent, last_word, overlay, silent};
pub use upsert::{AdapterCondition, AdapterStatus, upsert};
pub use validate::validate;
pub use why::{RULES, why};

/// Adapter condition: the adapter's work is done and good.
pub const AVAILABLE: &str = "Available";
/// Adapter condition: the adapter's resources are applied.
pub const APPLIED: &str = "Applied";
/// Adapter condition: the adapter itself works.
pub const HEALTH: &str = "Health";
/// Adapter condition, while the cluster is being deleted: nothing of the adapter's is left.
pub const FINALIZED: &str = "Finalized";
/// What every report carries.
pub const MANDATORY: [&str; 3] = [AVAILABLE, APPLIED, HEALTH];

/// Cluster condition: every required adapter is done at the current generation.
pub const RECONCILED: &str = "Reconciled";
/// Cluster condition: the last generation at which every required adapter was done is still good.
pub const LAST_KNOWN_RECONCILED: &str = "LastKnownReconciled";

names! {
    /// Whether a condition holds.
    pub enum Status {
        /// The condition holds.
        True = "True",
        /// The condition does not hold.
        False = "False",
        /// Whether the condition holds is not known.
        Unknown = "Unknown",
    }
}

names! {
    /// Why a cluster condition has its status.
    pub enum Reason {
        /// Every required adapter is done at the current generation.
        ReconciledAll = "ReconciledAll",
        /// A required adapter is not done at the current generation, or none is required.
        ReconciledMissingAdapters = "ReconciledMissingAdapters",
        /// Every adapter has finalized, but resources that the cluster owns are still there.
        ReconciledWaitingForChildren = "ReconciledWaitingForChildren",
        /// Everything was done when last heard of, but a required adapter has been silent past its patience.
        ReconciledAdapterSilent = "ReconciledAdapterSilent",
        /// Every required adapter was available at the generation the condition names.
        AllAdaptersReconciled = "AllAdaptersReconciled",
        /// A required adapter has not said yet whether it is available, or none is required.
        AdaptersMissingReports = "AdaptersMissingReports",
        /// A required adapter says that it is not available.
        AdapterReportedNotAvailable = "AdapterReportedNotAvailable",
        /// Every required adapter is available, but at different generations, and there is no earlier good one.
        AdaptersNotAtSameGeneration = "AdaptersNotAtSameGeneration",
    }
}

/// A cluster as far as its conditions depend on what people asked for.
#[derive(Debug, Clone, Copy)]
pub struct Desired<'a> {
    /// Counts the changes of the desired state, from 1.
    pub generation: i64,
    /// When the desired state last changed: the time of a condition to which no report gives one.
    pub updated_time: Timestamp,
    /// The adapters that must agree, in the order of the configuration.
    pub required_adapters: &'a [String],
    /// Deletion was requested: adapters finalize instead of becoming available.
    pub deleted: bool,
    /// It owns resources that are still there, also those that are being deleted themselves.
    pub active_children: bool,
}

/// One condition of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is about, e.g. `Reconciled` or `DnsSuccessful`.
    #[serde(rename = "type")]
    pub type_: Cow<'static, str>,
    /// Whether it holds.
    pub status: Status,
    /// Why, as one word: a [`Reason`], or the adapter's own where the condition is an adapter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'static, str>>,
    /// The generation it speaks of.
    pub observed_generation: i64,
    /// When there was such a condition for the first time.
    pub created_time: Timestamp,
    /// The observation it rests on; the oldest, where it rests on several.
    pub last_updated_time: Timestamp,
    /// When its status last moved.
    pub last_transition_time: Timestamp,
}
