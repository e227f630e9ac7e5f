//! The statements both databases understand, and the shape of those they do not share.
//!
//! Every statement is a constant here or in a [`Dialect`]; a test prepares them all on both databases.
//! Parameters are written `$1`, `$2`, …

use crate::guards::Guard;

/// The columns [`crate::Resource`] is read from, in order.
macro_rules! resource_columns {
    ($of:literal) => {
        concat!(
            $of,
            "kind, ",
            $of,
            "id, ",
            $of,
            "name, ",
            $of,
            "version, ",
            $of,
            "head, ",
            $of,
            "state, ",
            $of,
            "document, ",
            $of,
            "labels, ",
            $of,
            "fields, ",
            $of,
            "keys, ",
            $of,
            "deleted, ",
            $of,
            "created_at, ",
            $of,
            "updated_at, ",
            $of,
            "state_changed_at, ",
            $of,
            "due_at"
        )
    };
}
pub(crate) use resource_columns;

/// The columns [`crate::HistoryRow`] is read from, in order.
macro_rules! history_columns {
    () => {
        "kind, resource_id, sequence, type, from_state, to_state, triggered_by, user_id, comment, metadata, \
         request_id, created_at, hash"
    };
}
pub(crate) use history_columns;

/// Keeps the newer of two observations of one source.
macro_rules! keep_newer {
    () => {
        " ON CONFLICT (kind, resource_id, source) DO UPDATE SET version = observations.version + 1, \
         document = excluded.document, observed_at = excluded.observed_at, received_at = excluded.received_at \
         WHERE observations.received_at < excluded.received_at RETURNING resource_id"
    };
}
pub(crate) use keep_newer;

/// The statements that differ between the databases.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// History in feed order after `$1` (xid), `$2` (position), at most `$3`: only what can no longer be
    /// overtaken.
    pub(crate) feed_after: &'static str,
    /// The same of the kinds that `$6` lists between commas, up to `$3` (xid), `$4` (position), at most `$5`.
    pub(crate) feed_of: &'static str,
    /// The newest xid and position that `feed_after` would return.
    pub(crate) feed_tail: &'static str,
    /// Like `feed_after`, but everything that was committed: for readers with a snapshot.
    pub(crate) history_after: &'static str,
    /// History newest first, before `$1` (xid), `$2` (position), at most `$3`.
    pub(crate) history_before: &'static str,
    /// Takes or renews the lease `$1` for `$2`, `$3` milliseconds; returns its epoch.
    pub(crate) lease_acquire: &'static str,
    /// The leases from `$1` on and before `$2`, with the milliseconds left by the database's clock.
    pub(crate) leases: &'static str,
    /// The same of the lease `$1`.
    pub(crate) lease: &'static str,
    /// Forgets the leases of resources that lapsed more than `$1` milliseconds ago.
    pub(crate) lease_sweep: &'static str,
    /// Takes the lease of due resources of the kind `$1` for `$2`, `$3` milliseconds, at most `$4`; returns the epoch
    /// of each, and the id on SQLite, the resource on PostgreSQL.
    pub(crate) due_claim: &'static str,
    /// The earliest due time of the resources of the kind `$1` whose lease is free.
    pub(crate) due_next: &'static str,
    /// The living resources of the kind `$1` whose time has come, the longest overdue first, at most `$2`.
    pub(crate) due_now: &'static str,
    /// Makes resources of the kind `$1` due at another time; `$2` holds an array for each: id, the time it was due,
    /// the time it is due next.
    pub(crate) due_move: &'static str,
    /// Takes effects for `$1`, `$2` milliseconds, at most `$3`, of the types in the JSON array `$4`.
    pub(crate) effects_claim: &'static str,
    /// Keeps the effect `$1` that `$2` took for `$3` milliseconds from now on.
    pub(crate) effect_renew: &'static str,
    /// What was denied in the last `$1` milliseconds.
    pub(crate) denied: &'static str,
    /// Deletes denials older than `$1` milliseconds.
    pub(crate) denied_sweep: &'static str,
    /// Stores observations of the source `$2` for resources of the kind `$1`; `$3` has an array for each: id,
    /// document, time.
    pub(crate) observe_all: &'static str,
    /// Starts a transaction that reads one state of everything.
    pub(crate) begin_snapshot: &'static str,
    /// Starts a transaction without another writer beside it.
    pub(crate) begin_alone: &'static [&'static str],
    /// The xid of rows that this transaction writes.
    pub(crate) current_xid: &'static str,
    /// Gives the feed a new epoch, and continues numbering after the restored rows.
    pub(crate) after_restore: &'static [&'static str],
    /// The names of the triggers of history and checkpoints that are there, and not switched off.
    pub(crate) guards_there: &'static str,
    /// Those that must be.
    pub(crate) guards: &'static [Guard],
}

impl Dialect {
    /// All but those that start a transaction, for the test that prepares them.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<&'static str> {
        let single = [
            self.feed_after,
            self.feed_of,
            self.feed_tail,
            self.history_after,
            self.history_before,
            self.lease_acquire,
            self.leases,
            self.lease,
            self.lease_sweep,
            self.due_claim,
            self.due_next,
            self.due_now,
            self.due_move,
            self.effects_claim,
            self.effect_renew,
            self.denied,
            self.denied_sweep,
            self.observe_all,
            self.current_xid,
            self.guards_there,
        ];
        single.into_iter().chain(self.after_restore.iter().copied()).collect()
    }
}

/// Declares the shared statements and the list that the prepare test walks.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* pub(crate) const $name: &str = $sql;)*

        #[cfg(test)]
        pub(crate) const SHARED: &[&str] = &[$($name),*];
    };
}

statements! {
    RESOURCE = concat!("SELECT ", resource_columns!(""), " FROM resources WHERE kind = $1 AND id = $2");

    RESOURCE_BY_KEY = concat!(
        "SELECT ", resource_columns!("r."), " FROM resource_keys k \
         JOIN resources r ON r.kind = k.kind AND r.id = k.resource_id WHERE k.kind = $1 AND k.key = $2"
    );

    KEY_HOLDER = "SELECT resource_id FROM resource_keys WHERE kind = $1 AND key = $2";

    COUNT_BY_STATE =
        "SELECT kind, state, count(*) FROM resources WHERE deleted = 0 \
         GROUP BY kind, state ORDER BY kind, state";

    COUNT_BY_ZONE =
        "SELECT t.value, count(*) FROM terms t WHERE t.kind = $1 AND (t.term = $2 OR t.term = $3 AND NOT EXISTS \
         (SELECT 1 FROM terms o WHERE o.kind = t.kind AND o.resource_id = t.resource_id AND o.term = $2)) \
         GROUP BY t.value ORDER BY t.value";

    LAST_DELETED =
        "SELECT id FROM resources WHERE kind = $1 AND name = $2 AND deleted = 1 ORDER BY id DESC LIMIT $3";

    HISTORY = concat!(
        "SELECT ", history_columns!(), " FROM history WHERE kind = $1 AND resource_id = $2 \
         ORDER BY sequence DESC LIMIT $3 OFFSET $4"
    );

    HISTORY_TOTAL = "SELECT count(*) FROM history WHERE kind = $1 AND resource_id = $2";

    TRANSITIONS = concat!(
        "SELECT ", history_columns!(), " FROM history \
         WHERE kind = $1 AND resource_id = $2 AND type = 'transition' \
         ORDER BY sequence DESC LIMIT $3 OFFSET $4"
    );

    TRANSITIONS_TOTAL =
        "SELECT count(*) FROM history WHERE kind = $1 AND resource_id = $2 AND type = 'transition'";

    /// Every chain in order, by keyset.
    CHAINS = concat!(
        "SELECT ", history_columns!(), " FROM history \
         WHERE (kind, resource_id, sequence) > ($1, $2, $3) \
         ORDER BY kind, resource_id, sequence LIMIT $4"
    );

    /// Every head in the order of the chains, by keyset.
    HEADS =
        "SELECT kind, id, version, head, state FROM resources \
         WHERE (kind, id) > ($1, $2) ORDER BY kind, id LIMIT $3";

    EPOCH = "SELECT value FROM meta WHERE key = 'epoch'";

    EFFECTS_PENDING =
        "SELECT id, kind, resource_id, sequence, type, payload, created_at FROM effects \
         WHERE done_at IS NULL AND id > $1 ORDER BY id LIMIT $2";

    EFFECT_DONE =
        "UPDATE effects SET done_at = $2, next_attempt_at = NULL, last_error = NULL, holder = NULL, \
         claimed_until = 0 WHERE id = $1 AND done_at IS NULL RETURNING id";

    /// At once if the same was requested meanwhile, which clears the claim's time.
    EFFECT_RETRY =
        "UPDATE effects SET next_attempt_at = CASE WHEN next_attempt_at IS NULL THEN NULL ELSE $3 END, \
         last_error = $4, holder = NULL, claimed_until = 0 \
         WHERE id = $1 AND (holder IS NULL OR holder = $2) AND done_at IS NULL RETURNING id";

    EFFECTS_RELEASE =
        "UPDATE effects SET holder = NULL, claimed_until = 0 WHERE done_at IS NULL AND holder = $1 RETURNING id";

    EFFECTS_RELEASE_ALL =
        "UPDATE effects SET holder = NULL, claimed_until = 0 WHERE done_at IS NULL AND holder IS NOT NULL RETURNING id";

    /// Open effects, and the last finished one of each type.
    EFFECTS_OF =
        "SELECT id, type, sequence, created_at, attempts, last_error, next_attempt_at, done_at, claimed_until \
         FROM effects WHERE kind = $1 AND resource_id = $2 AND (done_at IS NULL OR id = (SELECT max(d.id) FROM effects d \
         WHERE d.kind = $1 AND d.resource_id = $2 AND d.type = effects.type AND d.done_at IS NOT NULL)) \
         ORDER BY id";

    /// The last of the next `$2` ids after `$1`.
    EFFECTS_STEP =
        "SELECT max(id) FROM (SELECT id FROM effects WHERE id > $1 ORDER BY id LIMIT $2) AS step";

    /// Those after `$1` and up to `$2` that were done by `$3`, but for the last one of each type of a resource.
    EFFECTS_SWEEP =
        "DELETE FROM effects WHERE id > $1 AND id <= $2 AND done_at <= $3 AND EXISTS (SELECT 1 FROM effects n \
         WHERE n.kind = effects.kind AND n.resource_id = effects.resource_id AND n.type = effects.type \
         AND n.id > effects.id AND n.done_at IS NOT NULL) RETURNING id";

    EFFECTS_OPEN =
        "SELECT type, count(*), count(last_error), min(created_at) FROM effects WHERE done_at IS NULL \
         GROUP BY type ORDER BY type";

    /// The first living resource of a kind with a value of a term.
    TERM_USER =
        "SELECT resource_id FROM terms WHERE kind = $1 AND term = $2 AND value = $3 \
         ORDER BY resource_id LIMIT 1";

    OBSERVATIONS =
        "SELECT kind, resource_id, source, version, document, observed_at, received_at FROM observations \
         WHERE kind = $1 AND resource_id = $2 ORDER BY source";

    OBSERVATION =
        "SELECT kind, resource_id, source, version, document, observed_at, received_at FROM observations \
         WHERE kind = $1 AND resource_id = $2 AND source = $3";

    OBSERVATION_INSERT =
        "INSERT INTO observations (kind, resource_id, source, version, document, observed_at, received_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING version";

    OBSERVATION_UPDATE =
        "UPDATE observations SET version = CAST($4 AS BIGINT), document = $5, observed_at = $6, received_at = $7 \
         WHERE kind = $1 AND resource_id = $2 AND source = $3 AND version = CAST($4 AS BIGINT) - 1 RETURNING version";

    OBSERVATION_PUT =
        "INSERT INTO observations (kind, resource_id, source, version, document, observed_at, received_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (kind, resource_id, source) DO UPDATE SET \
         version = observations.version + 1, document = excluded.document, observed_at = excluded.observed_at, \
         received_at = excluded.received_at RETURNING version";

    OBSERVATIONS_FORGET = "DELETE FROM observations WHERE kind = $1 AND resource_id = $2 RETURNING source";

    CHECKPOINT_LAST =
        "SELECT xid, position, number, row_count, seal, created_at, signature FROM checkpoints \
         ORDER BY number DESC LIMIT 1";

    CHECKPOINTS_AFTER =
        "SELECT number, row_count, seal, created_at, signature FROM checkpoints \
         WHERE number > $1 ORDER BY number LIMIT $2";

    /// Checks for the number itself, because a trigger of SQLite refuses an existing one before `ON CONFLICT`
    /// applies.
    CHECKPOINT_INSERT =
        "INSERT INTO checkpoints (number, row_count, xid, position, seal, created_at, signature) \
         SELECT $1, $2, $3, $4, $5, $6, $7 WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE number = $1) \
         ON CONFLICT (number) DO NOTHING RETURNING number";

    /// Takes the key, unless it is held and has not expired.
    IDEMPOTENCY_CLAIM =
        "INSERT INTO idempotency (scope, key, request_hash, expires_at) VALUES ($1, $2, $3, $5) \
         ON CONFLICT (scope, key) DO UPDATE SET request_hash = excluded.request_hash, status = NULL, \
         answer = NULL, marker = NULL, expires_at = excluded.expires_at WHERE idempotency.expires_at <= $4 RETURNING key";

    IDEMPOTENCY_FIND =
        "SELECT request_hash, status, answer, marker FROM idempotency \
         WHERE scope = $1 AND key = $2 AND expires_at > $3";

    IDEMPOTENCY_ANSWER =
        "UPDATE idempotency SET status = $4, answer = $5, expires_at = $6 \
         WHERE scope = $1 AND key = $2 AND request_hash = $3 RETURNING key";

    IDEMPOTENCY_RELEASE =
        "DELETE FROM idempotency \
         WHERE scope = $1 AND key = $2 AND request_hash = $3 AND answer IS NULL \
         AND marker IS NULL RETURNING key";

    IDEMPOTENCY_SWEEP = "DELETE FROM idempotency WHERE expires_at <= $1 RETURNING key";

    PUT_OFF =
        "UPDATE resources SET due_at = $4 WHERE kind = $1 AND id = $2 AND version = $3 AND deleted = 0 \
         AND EXISTS (SELECT 1 FROM leases WHERE name = $5 AND epoch = $6) RETURNING id";

    LEASE_RELEASE =
        "UPDATE leases SET expires_at = 0 WHERE name = $1 AND holder = $2 AND epoch = $3 RETURNING name";

    LEASE_VOID = "UPDATE leases SET expires_at = 0 WHERE name = $1 RETURNING name";

    LEASE_FORGET = "DELETE FROM leases WHERE name = $1 RETURNING name";
}
