//! The statements only PostgreSQL runs.

use crate::sql::{Dialect, history_columns, resource_columns};

/// Milliseconds of the database's clock.
macro_rules! now {
    () => {
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}

/// Transactions below this one have ended; no row can appear among theirs any more.
macro_rules! settled {
    () => {
        "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    };
}

/// Positions are handed out before commit, so their order is not the order of commits: the transaction comes
/// first, and only settled ones are read.
pub(crate) const DIALECT: Dialect = Dialect {
    feed_after: concat!(
        "SELECT xid, position, ",
        history_columns!(),
        " FROM history WHERE (xid, position) > ($1, $2) AND xid < ",
        settled!(),
        " ORDER BY xid, position LIMIT $3"
    ),
    feed_tail: concat!(
        "SELECT xid, position FROM history WHERE xid < ",
        settled!(),
        " ORDER BY xid DESC, position DESC LIMIT 1"
    ),
    history_after: concat!(
        "SELECT xid, position, ",
        history_columns!(),
        " FROM history WHERE (xid, position) > ($1, $2) ORDER BY xid, position LIMIT $3"
    ),
    history_before: concat!(
        "SELECT xid, position, ",
        history_columns!(),
        " FROM history WHERE (xid, position) < ($1, $2) ORDER BY xid DESC, position DESC LIMIT $3"
    ),
    lease_acquire: concat!(
        "INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, $2, 1, ",
        now!(),
        " + $3) \
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at, \
         epoch = leases.epoch + \
         CASE WHEN leases.holder <> excluded.holder OR leases.expires_at <= ",
        now!(),
        " THEN 1 ELSE 0 END \
         WHERE leases.holder = excluded.holder OR leases.expires_at <= ",
        now!(),
        " RETURNING epoch"
    ),
    leases: concat!(
        "SELECT name, holder, epoch, greatest(0, expires_at - ",
        now!(),
        ") FROM leases ORDER BY name"
    ),
    begin_snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    begin_alone: &["BEGIN", "LOCK TABLE resources, history, effects, checkpoints IN EXCLUSIVE MODE"],
    current_xid: "SELECT pg_current_xact_id()::text::bigint",
    after_restore: &[
        "UPDATE meta SET value = substr(md5(gen_random_uuid()::text), 1, 16) WHERE key = 'epoch'",
        "SELECT setval(pg_get_serial_sequence('history', 'position'), max(position)) FROM history",
        "SELECT setval(pg_get_serial_sequence('effects', 'id'), max(id)) FROM effects",
    ],
};

/// Whether there are rows of transactions that this server has not run yet.
pub(super) const FOREIGN_TRANSACTIONS: &str =
    "SELECT coalesce(max(xid), 0) >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM history";

pub(super) const FENCE: &str = "SELECT epoch FROM leases WHERE name = $1 AND epoch = $2";

/// One statement per change. `$1`–`$14` are the resource, `$15`–`$21` what history has beyond it, `$22` the
/// head that was read, if any. Nothing below `moved` happens unless it returns its row.
macro_rules! commit {
    ($fence:expr, $moved:expr, $further:expr) => {
        concat!(
            "WITH ",
            $fence,
            "moved AS (",
            $moved,
            " RETURNING 1), \
             entry AS (INSERT INTO history (",
            history_columns!(),
            ") SELECT $1, $2, $4, $15, $16, $6, $17, $18, $19, $20, $21, $13, $5 FROM moved RETURNING position)",
            $further,
            " SELECT position FROM entry"
        )
    };
}

/// What most changes do not need, in pairs of arrays: `$23`, `$24` effects, `$25`, `$26` new terms, `$27`,
/// `$28` old terms; `$29` new keys, `$30` old keys.
macro_rules! further {
    () => {
        ", effect AS (INSERT INTO effects (kind, resource_id, sequence, type, payload, created_at) \
           SELECT $1, $2, $4, type, payload, $13 \
           FROM moved, unnest($23::text[], $24::text[]) AS wanted (type, payload)), \
         old_terms AS (DELETE FROM terms USING moved, unnest($27::text[], $28::text[]) AS old (term, value) \
           WHERE terms.kind = $1 AND terms.resource_id = $2 \
           AND terms.term = old.term AND terms.value = old.value), \
         new_terms AS (INSERT INTO terms (kind, term, value, resource_id) \
           SELECT $1, term, value, $2 FROM moved, unnest($25::text[], $26::text[]) AS new (term, value) \
           ON CONFLICT DO NOTHING), \
         old_keys AS (DELETE FROM resource_keys USING moved \
           WHERE resource_keys.kind = $1 AND resource_keys.resource_id = $2 \
           AND resource_keys.key = ANY ($30::text[])), \
         new_keys AS (INSERT INTO resource_keys (kind, key, resource_id) \
           SELECT $1, key, $2 FROM moved, unnest($29::text[]) AS new (key))"
    };
}

/// The lease `$31` in its epoch `$32`, held until the commit so that it cannot move on in between.
macro_rules! fence {
    () => {
        "fence AS (SELECT 1 FROM leases WHERE name = $31 AND epoch = $32 FOR SHARE), "
    };
}

/// The lease is still in its epoch, or there is none to mind.
macro_rules! unfenced {
    () => {
        "($31::text IS NULL OR EXISTS (SELECT 1 FROM fence))"
    };
}

macro_rules! update {
    () => {
        "UPDATE resources SET name = $3, version = $4::bigint, head = $5::text, state = $6::text, document = $7, \
         labels = $8, fields = $9, keys = $10, deleted = $11, created_at = $12, updated_at = $13::text, \
         state_changed_at = $14 \
         WHERE kind = $1::text AND id = $2::text AND version = $4::bigint - 1 AND head = $22"
    };
}

/// A change that touches nothing but the resource and its history.
pub(super) const MOVE: &str = commit!("", update!(), "");

pub(super) const UPDATE: &str = commit!(fence!(), concat!(update!(), " AND ", unfenced!()), further!());

pub(super) const INSERT: &str = commit!(
    fence!(),
    concat!(
        "INSERT INTO resources (",
        resource_columns!(""),
        ") SELECT $1::text, $2::text, $3, $4::bigint, $5::text, $6::text, $7, $8, $9, $10, $11::bigint, $12, \
         $13::text, $14 WHERE $22::text IS NULL AND ",
        unfenced!(),
        " ON CONFLICT DO NOTHING"
    ),
    further!()
);

#[cfg(test)]
pub(crate) const COMMIT: [&str; 5] = [FOREIGN_TRANSACTIONS, FENCE, MOVE, UPDATE, INSERT];
