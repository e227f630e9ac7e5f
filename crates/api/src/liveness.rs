//! Liveness: the silence of members, and the periods in which the server itself could not hear.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the server that answers listens, judges and guards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Liveness {
    /// Whether, and since when, it listens.
    pub listening: Listening,
    /// The server that judges.
    pub sweeper: Sweeper,
    /// How many members are watched, by kind.
    pub members: BTreeMap<String, u64>,
    /// How many are silent for longer than their interval; counted by the server that sweeps.
    pub silent: u32,
    /// Of these, how many missed more beats than the rule allows.
    pub due: u32,
    /// Of these, how many are held back because most of their zone fell silent together.
    pub suspected: u32,
    /// The guard of the fleet as a whole.
    pub fleet: Guard,
    /// The guards of zones in which something is going on.
    pub zones: BTreeMap<String, Guard>,
    /// When beats were last written down.
    pub flush: Flush,
}

/// Whether a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listening {
    /// Since when it listens without a break.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// Why it cannot hear now: `pause`, `database`, `listener`, `clock_jump` or `start_up`; null while it listens.
    pub deaf: Option<String>,
    /// The last periods in which it could not hear, newest first. They do not count as silence of members.
    pub periods: Vec<Deaf>,
}

/// A period in which the server could not hear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deaf {
    /// Why.
    pub cause: String,
    /// Since when; null when that is not known.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub from: Option<Timestamp>,
    /// Until when.
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
}

/// The server that judges silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sweeper {
    /// Whether it is the server that answers; of several servers on one database exactly one sweeps.
    pub this_server: bool,
    /// Since when.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// When it last did.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_sweep: Option<Timestamp>,
    /// How long that took, in microseconds.
    pub last_sweep_micros: Option<u64>,
}

/// The state of a guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Guard {
    /// `watching`, `holding` or `releasing`.
    pub phase: String,
    /// Since when it holds or releases.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Its incident.
    pub incident: Option<String>,
    /// Members it watches.
    pub watched: u32,
    /// Of these, the silent.
    pub silent: u32,
    /// Of these, the due.
    pub due: u32,
}

/// When beats were last written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flush {
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// How many rows.
    pub rows: u64,
    /// How long it took.
    pub millis: u64,
    /// Whether the last attempt failed.
    pub failed: bool,
}

/// Many members that fell silent together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Incident {
    /// Names it.
    pub id: String,
    /// The zone; null for the fleet as a whole.
    pub zone: Option<String>,
    /// `holding`, `releasing` or `ended`.
    pub state: String,
    /// A description of the event.
    pub why: String,
    /// Members that were silent when it last changed.
    pub silent: u32,
    /// How many members the incident covers.
    pub watched: u32,
    /// When it was raised.
    #[schema(value_type = String, format = DateTime)]
    pub raised_at: Timestamp,
    /// When holding ends at the latest.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub held_until: Option<Timestamp>,
    /// When it was over.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}
