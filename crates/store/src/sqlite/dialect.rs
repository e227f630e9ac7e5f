//! The statements only SQLite runs.

use crate::guards::Guard;
use crate::sql::{Dialect, history_columns, keep_newer, resource_columns};

/// Milliseconds of the database's clock.
macro_rules! now {
    () => {
        "CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)"
    };
}

/// The same clock as the text of a time.
macro_rules! now_text {
    () => {
        "(strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z')"
    };
}

/// Living resources of the kind `$1` whose time has come.
macro_rules! due {
    () => {
        concat!("r.kind = $1 AND r.deleted = 0 AND r.due_at IS NOT NULL AND r.due_at <= ", now_text!())
    };
}

/// Whether the lease of the resource is free.
macro_rules! unclaimed {
    () => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = r.kind || '/' || r.id AND l.expires_at > ",
            now!(),
            ")"
        )
    };
}

const AFTER: &str = concat!(
    "SELECT 0, position, ",
    history_columns!(),
    " FROM history WHERE $1 >= 0 AND position > $2 ORDER BY position LIMIT $3"
);

/// There is one writer, so the order of positions is the order of commits.
pub(crate) const DIALECT: Dialect = Dialect {
    feed_after: AFTER,
    feed_of: concat!(
        "SELECT 0, position, ",
        history_columns!(),
        " FROM history WHERE $1 >= 0 AND position > $2 AND $3 >= 0 AND position <= $4 \
         AND instr($6, ',' || kind || ',') > 0 ORDER BY position LIMIT $5"
    ),
    feed_tail: "SELECT 0, position FROM history ORDER BY position DESC LIMIT 1",
    history_after: AFTER,
    history_before: concat!(
        "SELECT 0, position, ",
        history_columns!(),
        " FROM history WHERE $1 >= 0 AND position < $2 ORDER BY position DESC LIMIT $3"
    ),
    // As below: the epoch of a deleted lease starts at the present time.
    lease_acquire: concat!(
        "INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, $2, ",
        now!(),
        ", ",
        now!(),
        " + $3) \
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at, \
         epoch = epoch + (leases.holder <> excluded.holder OR leases.expires_at <= ",
        now!(),
        ") \
         WHERE leases.holder = excluded.holder OR leases.expires_at <= ",
        now!(),
        " RETURNING epoch"
    ),
    leases: concat!(
        "SELECT name, holder, epoch, max(0, expires_at - ",
        now!(),
        ") FROM leases WHERE name >= $1 AND name < $2 ORDER BY name"
    ),
    lease: concat!(
        "SELECT name, holder, epoch, max(0, expires_at - ",
        now!(),
        ") FROM leases WHERE name = $1"
    ),
    lease_sweep: concat!(
        "DELETE FROM leases WHERE name LIKE '%/%' AND expires_at < ",
        now!(),
        " - $1 RETURNING name"
    ),
    // The epoch of a deleted lease starts at the present time, which is above every earlier epoch.
    due_claim: concat!(
        "INSERT INTO leases (name, holder, epoch, expires_at) SELECT r.kind || '/' || r.id, $2, ",
        now!(),
        ", ",
        now!(),
        " + $3 FROM resources r WHERE ",
        due!(),
        " AND ",
        unclaimed!(),
        " ORDER BY r.due_at LIMIT $4 \
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at, \
         epoch = leases.epoch + 1 RETURNING epoch, substr(name, length($1) + 2)"
    ),
    due_next: concat!(
        "SELECT r.due_at FROM resources r WHERE r.kind = $1 AND r.deleted = 0 AND r.due_at IS NOT NULL AND ",
        unclaimed!(),
        " ORDER BY r.due_at LIMIT 1"
    ),
    due_now: concat!("SELECT r.id, r.due_at FROM resources r WHERE ", due!(), " ORDER BY r.due_at LIMIT $2"),
    due_move: "UPDATE resources SET due_at = moved.value ->> 2 FROM json_each($2) AS moved \
               WHERE kind = $1 AND resources.id = moved.value ->> 0 AND due_at = moved.value ->> 1 AND deleted = 0 \
               RETURNING kind",
    effects_claim: concat!(
        "UPDATE effects SET holder = $1, claimed_until = ",
        now!(),
        " + $2, attempts = attempts + 1, next_attempt_at = ",
        now_text!(),
        " WHERE id IN (SELECT e.id FROM effects e WHERE e.done_at IS NULL \
         AND e.claimed_until <= ",
        now!(),
        " AND (e.next_attempt_at IS NULL OR e.next_attempt_at <= ",
        now_text!(),
        ") AND NOT EXISTS (SELECT 1 FROM effects o WHERE o.kind = e.kind AND o.resource_id = e.resource_id \
         AND o.type = e.type AND o.id < e.id AND o.done_at IS NULL) \
         AND e.type IN (SELECT value FROM json_each($4)) ORDER BY e.id LIMIT $3) \
         RETURNING id, kind, resource_id, sequence, type, payload, created_at, attempts"
    ),
    effect_renew: concat!(
        "UPDATE effects SET claimed_until = ",
        now!(),
        " + $3 WHERE id = $1 AND holder = $2 AND done_at IS NULL RETURNING id"
    ),
    denied: concat!("SELECT kind, resource_id, version FROM denied WHERE denied_at > ", now!(), " - $1"),
    denied_sweep: concat!("DELETE FROM denied WHERE denied_at <= ", now!(), " - $1 RETURNING position"),
    observe_all: concat!(
        "INSERT INTO observations (kind, resource_id, source, version, document, observed_at, received_at) \
         SELECT $1, value ->> 0, $2, 1, value ->> 1, value ->> 2, value ->> 2 FROM json_each($3) \
         WHERE EXISTS (SELECT 1 FROM resources r WHERE r.kind = $1 AND r.id = value ->> 0 AND r.deleted = 0)",
        keep_newer!()
    ),
    begin_snapshot: "BEGIN",
    begin_alone: &["BEGIN IMMEDIATE"],
    current_xid: "SELECT 0",
    after_restore: &["UPDATE meta SET value = lower(hex(randomblob(8))) WHERE key = 'epoch'"],
    guards_there: "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ('history', 'checkpoints')",
    guards: &GUARDS,
};

#[rustfmt::skip]
const GUARDS: [Guard; 6] = [
    Guard { name: "history_no_update", make:
        "CREATE TRIGGER history_no_update BEFORE UPDATE ON history \
         BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;" },
    Guard { name: "history_no_delete", make:
        "CREATE TRIGGER history_no_delete BEFORE DELETE ON history \
         BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;" },
    Guard { name: "history_no_replace", make:
        "CREATE TRIGGER history_no_replace BEFORE INSERT ON history \
         WHEN (NEW.position <> -1 AND NEW.position <= (SELECT max(position) FROM history)) \
         OR EXISTS (SELECT 1 FROM history \
         WHERE kind = NEW.kind AND resource_id = NEW.resource_id AND sequence = NEW.sequence) \
         BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;" },
    Guard { name: "checkpoints_no_update", make:
        "CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints \
         BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;" },
    Guard { name: "checkpoints_no_delete", make:
        "CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints \
         BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;" },
    Guard { name: "checkpoints_no_replace", make:
        "CREATE TRIGGER checkpoints_no_replace BEFORE INSERT ON checkpoints \
         WHEN EXISTS (SELECT 1 FROM checkpoints WHERE number = NEW.number) \
         BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;" },
];

// Statements that the writer runs for every change use SQLite's own `?1`, to save the translation.

pub(super) const FENCE: &str = "SELECT epoch FROM leases WHERE name = ?1 AND epoch = ?2";

pub(super) const RESOURCE: &str =
    concat!("SELECT ", resource_columns!(""), " FROM resources WHERE kind = ?1 AND id = ?2");

pub(super) const VERSION: &str = "SELECT version FROM resources WHERE kind = ?1 AND id = ?2";

/// The resource of a claim, if it is still due.
pub(super) const DUE: &str =
    concat!("SELECT ", resource_columns!("r."), " FROM resources r WHERE ", due!(), " AND r.id = $2");

pub(super) const MARK: &str = "\
     UPDATE idempotency SET marker = ?4, expires_at = ?5 WHERE scope = ?1 AND key = ?2 AND request_hash = ?3";

pub(super) const INSERT_RESOURCE: &str = concat!(
    "INSERT INTO resources (",
    resource_columns!(""),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT DO NOTHING"
);

pub(super) const UPDATE_RESOURCE: &str = "\
     UPDATE resources SET name = ?3, version = ?4, head = ?5, state = ?6, document = ?7, labels = ?8, \
     fields = ?9, keys = ?10, deleted = ?11, created_at = ?12, updated_at = ?13, state_changed_at = ?14, \
     due_at = ?15 WHERE kind = ?1 AND id = ?2 AND version = ?4 - 1 AND head = ?16";

/// A change that touches no index but that of states: kind, id, version, head, state, document, times, old head.
pub(super) const MOVE_RESOURCE: &str = "\
     UPDATE resources SET version = ?3, head = ?4, state = ?5, document = ?6, updated_at = ?7, \
     state_changed_at = ?8 WHERE kind = ?1 AND id = ?2 AND version = ?3 - 1 AND head = ?9";

pub(super) const INSERT_HISTORY: &str = concat!(
    "INSERT INTO history (",
    history_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
);

pub(super) const INSERT_EFFECT: &str = "\
     INSERT INTO effects (kind, resource_id, sequence, type, payload, created_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// A failed effect is retried at once when the same effect is requested again.
pub(super) const HURRY_EFFECTS: &str = "\
     UPDATE effects SET next_attempt_at = NULL \
     WHERE kind = ?1 AND resource_id = ?2 AND type = ?3 AND done_at IS NULL AND next_attempt_at IS NOT NULL";

pub(super) const INSERT_TERM: &str =
    "INSERT INTO terms (kind, term, value, resource_id) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";

pub(super) const DELETE_TERM: &str =
    "DELETE FROM terms WHERE kind = ?1 AND term = ?2 AND value = ?3 AND resource_id = ?4";

pub(super) const INSERT_KEY: &str =
    "INSERT INTO resource_keys (kind, key, resource_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

pub(super) const DELETE_KEY: &str =
    "DELETE FROM resource_keys WHERE kind = ?1 AND key = ?2 AND resource_id = ?3";

#[cfg(test)]
pub(crate) const COMMIT: [&str; 14] = [
    FENCE,
    RESOURCE,
    VERSION,
    DUE,
    MARK,
    INSERT_RESOURCE,
    UPDATE_RESOURCE,
    MOVE_RESOURCE,
    INSERT_HISTORY,
    INSERT_EFFECT,
    INSERT_TERM,
    DELETE_TERM,
    INSERT_KEY,
    DELETE_KEY,
];
