//! The statements only PostgreSQL runs.

use crate::guards::Guard;
use crate::sql::{Dialect, history_columns, keep_newer, resource_columns};

/// Milliseconds of the database's clock.
macro_rules! now {
    () => {
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}

/// The same clock as the text of a time, and as of the start of the statement, so that an index can be asked.
macro_rules! now_text {
    () => {
        "to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    };
}

/// Living resources of the kind `$1` whose lease is free.
macro_rules! unclaimed {
    () => {
        concat!(
            "r.kind = $1::text AND r.deleted = 0 AND r.due_at IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = r.kind || '/' || r.id AND l.expires_at > ",
            now!(),
            ")"
        )
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
    feed_of: concat!(
        "SELECT xid, position, ",
        history_columns!(),
        " FROM history WHERE (xid, position) > ($1, $2) AND (xid, position) <= ($3, $4) \
         AND strpos($6, ',' || kind || ',') > 0 ORDER BY xid, position LIMIT $5"
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
    // As below: the epoch of a deleted lease starts at the present time.
    lease_acquire: concat!(
        "INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, $2, ",
        now!(),
        ", ",
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
        ") FROM leases WHERE name >= $1 AND name < $2 ORDER BY name"
    ),
    lease: concat!(
        "SELECT name, holder, epoch, greatest(0, expires_at - ",
        now!(),
        ") FROM leases WHERE name = $1"
    ),
    lease_sweep: concat!(
        "DELETE FROM leases WHERE name LIKE '%/%' AND expires_at < ",
        now!(),
        " - $1 RETURNING name"
    ),
    // The epoch of a deleted lease starts at the present time, which is above every earlier epoch. Concurrent
    // claims skip each other's rows.
    due_claim: concat!(
        "WITH due AS MATERIALIZED (SELECT ",
        resource_columns!("r."),
        " FROM resources r WHERE ",
        unclaimed!(),
        " AND r.due_at <= ",
        now_text!(),
        " ORDER BY r.due_at LIMIT $4 FOR NO KEY UPDATE OF r SKIP LOCKED), \
         claimed AS (INSERT INTO leases (name, holder, epoch, expires_at) SELECT kind || '/' || id, $2, ",
        now!(),
        ", ",
        now!(),
        " + $3 FROM due ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, \
         expires_at = excluded.expires_at, epoch = leases.epoch + 1 WHERE leases.expires_at <= ",
        now!(),
        " RETURNING name, epoch) \
         SELECT claimed.epoch, ",
        resource_columns!("due."),
        " FROM claimed JOIN due ON claimed.name = due.kind || '/' || due.id"
    ),
    due_next: concat!("SELECT r.due_at FROM resources r WHERE ", unclaimed!(), " ORDER BY r.due_at LIMIT 1"),
    due_now: concat!(
        "SELECT r.id, r.due_at FROM resources r WHERE r.kind = $1 AND r.deleted = 0 AND r.due_at IS NOT NULL \
         AND r.due_at <= ",
        now_text!(),
        " ORDER BY r.due_at LIMIT $2"
    ),
    due_move: "UPDATE resources SET due_at = moved ->> 2 FROM json_array_elements($2::text::json) AS moved \
               WHERE kind = $1 AND id = moved ->> 0 AND due_at = moved ->> 1 AND deleted = 0 RETURNING kind",
    effects_claim: concat!(
        "WITH due AS MATERIALIZED (SELECT e.id FROM effects e WHERE e.done_at IS NULL AND e.claimed_until <= ",
        now!(),
        " AND (e.next_attempt_at IS NULL OR e.next_attempt_at <= ",
        now_text!(),
        ") AND NOT EXISTS (SELECT 1 FROM effects o WHERE o.kind = e.kind AND o.resource_id = e.resource_id \
         AND o.type = e.type AND o.id < e.id AND o.done_at IS NULL) \
         AND e.type IN (SELECT jsonb_array_elements_text($4::text::jsonb)) \
         ORDER BY e.id LIMIT $3 FOR NO KEY UPDATE OF e SKIP LOCKED) \
         UPDATE effects SET holder = $1, claimed_until = ",
        now!(),
        " + $2, attempts = attempts + 1, next_attempt_at = ",
        now_text!(),
        " FROM due WHERE effects.id = due.id \
         RETURNING effects.id, kind, resource_id, sequence, type, payload, created_at, attempts"
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
         SELECT $1::text, seen ->> 0, $2::text, 1, seen ->> 1, seen ->> 2, seen ->> 2 \
         FROM json_array_elements($3::text::json) AS seen \
         WHERE EXISTS (SELECT 1 FROM resources r WHERE r.kind = $1::text AND r.id = seen ->> 0 AND r.deleted = 0)",
        keep_newer!()
    ),
    begin_snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    begin_alone: &["BEGIN", "LOCK TABLE resources, history, effects, checkpoints IN EXCLUSIVE MODE"],
    current_xid: "SELECT pg_current_xact_id()::text::bigint",
    after_restore: &[
        "UPDATE meta SET value = substr(md5(gen_random_uuid()::text), 1, 16) WHERE key = 'epoch'",
        "SELECT setval(pg_get_serial_sequence('history', 'position'), max(position)) FROM history",
        "SELECT setval(pg_get_serial_sequence('effects', 'id'), max(id)) FROM effects",
    ],
    guards_there: "SELECT tgname::text FROM pg_trigger WHERE tgrelid IN ('history'::regclass, 'checkpoints'::regclass) \
                   AND NOT tgisinternal AND tgenabled IN ('O', 'A')",
    guards: &GUARDS,
};

/// A disabled trigger is created again too.
#[rustfmt::skip]
const GUARDS: [Guard; 2] = [
    Guard { name: "history_append_only", make:
        "CREATE OR REPLACE TRIGGER history_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON history \
         FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();" },
    Guard { name: "checkpoints_append_only", make:
        "CREATE OR REPLACE TRIGGER checkpoints_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON checkpoints \
         FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();" },
];

/// The oldest row that the feed does not show yet: its age in milliseconds, and the session whose transaction
/// has been open for the longest. Every role may see which sessions have a transaction, if not their queries.
pub(crate) const HELD_BACK: &str = concat!(
    "SELECT greatest(0, floor(extract(epoch FROM clock_timestamp() - created_at::timestamptz) * 1000))::bigint, \
     coalesce((SELECT session FROM (\
     SELECT age(backend_xid) AS age, 'the session with pid ' || pid AS session FROM pg_stat_activity WHERE backend_xid IS NOT NULL \
     UNION ALL SELECT age(transaction), 'the prepared transaction ' || quote_literal(gid) FROM pg_prepared_xacts) AS open \
     ORDER BY age DESC LIMIT 1), 'a session that has ended') FROM history WHERE xid >= ",
    settled!(),
    " ORDER BY xid, position LIMIT 1"
);

/// Whether there are rows of transactions that this server has not run yet.
pub(super) const FOREIGN_TRANSACTIONS: &str =
    "SELECT coalesce(max(xid), 0) >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM history";

pub(super) const FENCE: &str = "SELECT epoch FROM leases WHERE name = $1 AND epoch = $2";

/// `$1` is the kind; `$2`, `$3`, `$4` are ids in order, ages in milliseconds and intervals. The newer of two
/// servers' beats stays, and the interval of an older one while the newer one has none.
pub(crate) const NOTE_SEEN: &str = concat!(
    "INSERT INTO liveness (kind, id, seen_at, every_seconds) SELECT $1::text, id, ",
    now!(),
    " - age::bigint, every::bigint FROM unnest($2::text[], $3::text[], $4::text[]) AS heard (id, age, every) \
     ON CONFLICT (kind, id) DO UPDATE SET \
     seen_at = CASE WHEN liveness.seen_at > ",
    now!(),
    " THEN excluded.seen_at ELSE greatest(liveness.seen_at, excluded.seen_at) END, \
     every_seconds = coalesce(nullif(excluded.every_seconds, 0), liveness.every_seconds) \
     WHERE liveness.seen_at < excluded.seen_at OR liveness.every_seconds = 0 AND excluded.every_seconds > 0 \
     OR liveness.seen_at > ",
    now!()
);

/// Deletes observations of the source `$2` for those of the resources `$3` of the kind `$1` that are deleted.
pub(crate) const FORGET_GONE: &str = "DELETE FROM observations o USING resources r WHERE o.kind = $1 AND o.source = $2 \
     AND o.resource_id = ANY ($3::text[]) AND r.kind = o.kind AND r.id = o.resource_id AND r.deleted = 1";

/// Members of the kind `$1` with the age of their last beats. Beats in the future, after the clock was set
/// back, are ignored; the next beat replaces them.
pub(crate) const SEEN: &str = concat!(
    "SELECT id, greatest(0, ",
    now!(),
    " - seen_at), every_seconds FROM liveness WHERE kind = $1 AND seen_at <= ",
    now!()
);

/// The same for the members `$2`.
pub(crate) const SEEN_OF: &str = concat!(
    "SELECT id, greatest(0, ",
    now!(),
    " - seen_at), every_seconds FROM liveness WHERE kind = $1 AND id = ANY ($2::text[]) AND seen_at <= ",
    now!()
);

/// The age that makes the difference for a row of `liveness`: by its interval, or without one.
macro_rules! age {
    () => {
        "CASE WHEN l.every_seconds = 0 THEN $5::bigint ELSE greatest(l.every_seconds * $3::bigint, $4::bigint) END"
    };
}

/// Last beats of the kind `$1`, of members in the states `$2`, that are older than `$3` for each second of
/// their interval and than `$4`, or, without an interval, than `$5`; and those in the future, after the clock
/// was set back. Few are late, so their records are looked up one by one, against the planner's estimate.
pub(crate) const OVERDUE: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    now!(),
    " AS now) SELECT clock.now, late.id, clock.now - late.seen_at, late.every_seconds, late.seen_at, late.version \
     FROM clock LEFT JOIN (SELECT l.id, l.seen_at, l.every_seconds, r.version FROM clock c \
       JOIN liveness l ON l.kind = $1::text AND (c.now - l.seen_at > ",
    age!(),
    " OR l.seen_at > c.now + 1000) CROSS JOIN LATERAL (SELECT version FROM resources \
       WHERE kind = $1::text AND id = l.id AND state = ANY ($2::text[]) AND deleted = 0 LIMIT 1) r) late ON true"
);

/// The opposite: last beats that are no older than that. Members in such states are few.
pub(crate) const HEARD_WITHIN: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    now!(),
    " AS now) SELECT clock.now, heard.id, clock.now - heard.seen_at, heard.every_seconds, heard.seen_at, heard.version \
     FROM clock LEFT JOIN (SELECT r.id, l.seen_at, l.every_seconds, r.version FROM clock c \
       JOIN resources r ON r.kind = $1::text AND r.state = ANY ($2::text[]) AND r.deleted = 0 \
       CROSS JOIN LATERAL (SELECT seen_at, every_seconds FROM liveness WHERE kind = $1::text AND id = r.id LIMIT 1) l \
       WHERE c.now - l.seen_at BETWEEN 0 AND ",
    age!(),
    ") heard ON true"
);

pub(crate) const MOMENT: &str = concat!("SELECT ", now!());

/// Server `$2` has written every beat that it heard before the moment `$3`; `$1` is the kind of such rows.
pub(crate) const NOTE_WATERMARK: &str = "INSERT INTO liveness (kind, id, seen_at, every_seconds) VALUES ($1, $2, $3, 0) \
     ON CONFLICT (kind, id) DO UPDATE SET seen_at = excluded.seen_at";

/// Every server with a watermark, and when it refused beats last: rows of the kinds `$1` and `$2`.
pub(crate) const REPLICAS: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    now!(),
    " AS now) SELECT w.id, clock.now, w.seen_at, r.seen_at, coalesce(r.every_seconds, 0) FROM clock, liveness w \
     LEFT JOIN liveness r ON r.kind = $2::text AND r.id = w.id WHERE w.kind = $1::text"
);

pub(crate) const FORGET_SEEN: &str = "DELETE FROM liveness WHERE kind = $1 AND id = $2";

/// Takes a turn at the observations of a resource: `$1`–`$7` are the observation by which writers take turns, `$8`–`$11`
/// the sources, documents and times of the others. Nothing is kept unless the turn returns its row.
pub(super) const TAKE_TURN: &str = "WITH turn AS (UPDATE observations SET version = $4::bigint, document = $5::text, \
     observed_at = $6::text, received_at = $7::text WHERE kind = $1::text AND resource_id = $2::text \
     AND source = $3::text AND version = $4::bigint - 1 RETURNING version), \
     other AS (INSERT INTO observations (kind, resource_id, source, version, document, observed_at, received_at) \
       SELECT $1::text, $2::text, o.source, 1, o.document, o.observed_at, o.received_at \
       FROM turn, unnest($8::text[], $9::text[], $10::text[], $11::text[]) \
         AS o (source, document, observed_at, received_at) \
       ON CONFLICT (kind, resource_id, source) DO UPDATE SET version = observations.version + 1, \
       document = excluded.document, observed_at = excluded.observed_at, received_at = excluded.received_at) \
     SELECT version FROM turn";

/// The resources of the kind `$1` with the ids `$2`.
pub(crate) const RESOURCES: &str =
    concat!("SELECT ", resource_columns!(""), " FROM resources WHERE kind = $1 AND id = ANY ($2::text[])");

/// Locks the resource until the end of the transaction, so that no other change begins to hold it.
pub(super) const LOCK: &str = "SELECT 'locked' FROM resources WHERE kind = $1 AND id = $2 FOR UPDATE";

/// Keeps resources that do not exist from being created until the end of the transaction.
pub(super) const LOCK_ABSENT: &str = "SELECT 'locked' FROM \
     (SELECT pg_advisory_xact_lock_shared(hashtextextended(kind || '/' || id, 0)) \
     FROM unnest($1::text[], $2::text[]) AS absent (kind, id)) AS locks";

pub(crate) const FORGET_LAPSED_LEASES: &str =
    concat!("DELETE FROM leases WHERE starts_with(name, $1) AND expires_at < ", now!(), " - 86400000");

/// One statement per change. `$1`–`$15` are the resource (no labels: they and their like stay as they are),
/// `$16`–`$22` what history has beyond it, `$23` the
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
            ") SELECT $1, $2, $4, $16, $17, $6, $18, $19, $20, $21, $22, $13, $5 FROM moved RETURNING position)",
            $further,
            " SELECT position FROM entry"
        )
    };
}

/// Parts that most changes do not need, in pairs of arrays: `$24`, `$25` effects, `$26`, `$27` new terms,
/// `$28`, `$29` old terms; `$30` new keys, `$31` old keys; `$37`–`$41` the request that is carried out.
macro_rules! further {
    () => {
        ", effect AS (INSERT INTO effects (kind, resource_id, sequence, type, payload, created_at) \
           SELECT $1, $2, $4, type, payload, $13 \
           FROM moved, unnest($24::text[], $25::text[]) AS wanted (type, payload)), \
         hurried AS (UPDATE effects SET next_attempt_at = NULL FROM moved \
           WHERE effects.kind = $1 AND effects.resource_id = $2 AND effects.type = ANY ($24::text[]) \
           AND effects.done_at IS NULL AND effects.next_attempt_at IS NOT NULL), \
         old_terms AS (DELETE FROM terms USING moved, unnest($28::text[], $29::text[]) AS old (term, value) \
           WHERE terms.kind = $1 AND terms.resource_id = $2 \
           AND terms.term = old.term AND terms.value = old.value), \
         new_terms AS (INSERT INTO terms (kind, term, value, resource_id) \
           SELECT $1, term, value, $2 FROM moved, unnest($26::text[], $27::text[]) AS new (term, value) \
           ON CONFLICT DO NOTHING), \
         old_keys AS (DELETE FROM resource_keys USING moved \
           WHERE resource_keys.kind = $1 AND resource_keys.resource_id = $2 \
           AND resource_keys.key = ANY ($31::text[])), \
         new_keys AS (INSERT INTO resource_keys (kind, key, resource_id) \
           SELECT $1, key, $2 FROM moved, unnest($30::text[]) AS new (key)), \
         marked AS (UPDATE idempotency SET marker = $40, expires_at = $41 FROM moved \
           WHERE idempotency.scope = $37 AND idempotency.key = $38 AND idempotency.request_hash = $39)"
    };
}

/// The lease `$32` in its epoch `$33`, and the resources of the kinds `$34` with the ids `$35` at the
/// versions `$36`, locked until the commit so that they cannot change in between. [`LOCK_ABSENT`] covers
/// resources that must not exist.
macro_rules! preconditions {
    () => {
        "fence AS MATERIALIZED (SELECT 1 FROM leases WHERE name = $32 AND epoch = $33 FOR SHARE), \
         wanted AS MATERIALIZED (SELECT kind, id, version \
           FROM unnest($34::text[], $35::text[], $36::bigint[]) AS wanted (kind, id, version)), \
         held AS MATERIALIZED (SELECT 1 FROM resources r JOIN wanted w \
           ON r.kind = w.kind AND r.id = w.id AND r.version = w.version FOR SHARE OF r), "
    };
}

/// The lease is still in its epoch, everything held at its version, and the last beat of the resource `$42`,
/// or there are no preconditions.
macro_rules! bound {
    () => {
        "($32::text IS NULL OR EXISTS (SELECT 1 FROM fence)) AND ($34::text[] = '{}' OR \
         (SELECT count(*) FROM held) = (SELECT count(*) FROM wanted WHERE version > 0) \
         AND NOT EXISTS (SELECT 1 FROM resources r JOIN wanted w ON r.kind = w.kind AND r.id = w.id \
           WHERE w.version = 0)) AND ($42::bigint IS NULL OR EXISTS (SELECT 1 FROM liveness l \
           WHERE l.kind = $1::text AND l.id = $2::text AND l.seen_at = $42))"
    };
}

/// Creating a resource waits for transactions that rely on its absence.
macro_rules! created {
    () => {
        "created AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($1::text || '/' || $2::text, 0))), "
    };
}

macro_rules! update {
    () => {
        "UPDATE resources SET name = $3, version = $4::bigint, head = $5::text, state = $6::text, document = $7, \
         labels = coalesce($8, labels), fields = coalesce($9, fields), keys = coalesce($10, keys), \
         deleted = $11, created_at = coalesce($12, created_at), updated_at = $13::text, state_changed_at = $14, \
         due_at = CASE WHEN $8 IS NULL THEN due_at ELSE $15 END \
         WHERE kind = $1::text AND id = $2::text AND version = $4::bigint - 1 AND head = $23"
    };
}

/// A change that touches nothing but the state and the document of a resource, and its history: kind, id, version, head,
/// state, document and times; `$9`–`$15` what history has beyond it, `$16` the head that was read.
pub(super) const MOVE: &str = concat!(
    "WITH moved AS (UPDATE resources SET version = $3::bigint, head = $4::text, state = $5::text, document = $6, \
     updated_at = $7::text, state_changed_at = $8 \
     WHERE kind = $1::text AND id = $2::text AND version = $3::bigint - 1 AND head = $16 RETURNING 1) \
     INSERT INTO history (",
    history_columns!(),
    ") SELECT $1, $2, $3, $9, $10, $5, $11, $12, $13, $14, $15, $7, $4 FROM moved RETURNING position"
);

/// Makes many such changes, each for itself. `$1`–`$16` are the parameters of [`MOVE`], as arrays; `$17` is
/// whether a change sets the due time, and `$18` that time; `$19`, `$20` are the lease that it is made under,
/// if any, and its epoch; `$21` is the last beat of the resource that it was decided on, or negative.
///
/// Returns the numbers of those that were made. Rows that another session has locked are passed over.
pub(super) const MOVES: &str = concat!(
    "WITH wanted AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], \
       $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], \
       $15::text[], $16::text[], $17::bigint[], $18::text[], $19::text[], $20::bigint[], $21::bigint[]) WITH ORDINALITY AS wanted \
       (kind, id, version, head, state, document, at, state_changed_at, type, from_state, triggered_by, user_id, \
        comment, metadata, request_id, before, dated, due_at, fence, epoch, beat, number)), \
     fenced AS MATERIALIZED (SELECT w.* FROM wanted w JOIN leases l ON l.name = w.fence AND l.epoch = w.epoch \
       FOR SHARE OF l SKIP LOCKED), \
     free AS MATERIALIZED (SELECT w.* FROM (SELECT * FROM fenced UNION ALL SELECT * FROM wanted WHERE fence IS NULL) w \
       JOIN resources r ON r.kind = w.kind AND r.id = w.id AND r.version = w.version - 1 AND r.head = w.before \
       WHERE w.beat < 0 OR EXISTS (SELECT 1 FROM liveness l \
         WHERE l.kind = w.kind AND l.id = w.id AND l.seen_at = w.beat) \
       FOR NO KEY UPDATE OF r SKIP LOCKED), \
     moved AS (UPDATE resources r SET version = w.version, head = w.head, state = w.state, document = w.document, \
       updated_at = w.at, state_changed_at = w.state_changed_at, \
       due_at = CASE WHEN w.dated = 0 THEN r.due_at ELSE w.due_at END FROM free w \
       WHERE r.kind = w.kind AND r.id = w.id AND r.version = w.version - 1 AND r.head = w.before RETURNING w.*), \
     entry AS (INSERT INTO history (",
    history_columns!(),
    ") SELECT kind, id, version, type, from_state, state, triggered_by, user_id, comment, metadata, request_id, at, \
     head FROM moved) \
     SELECT number FROM moved"
);

/// For lanes: rows are always found by their key, independent of the planner's statistics. The server's time
/// limit is shorter than the lane's ([`super::WAIT`]), so that the outcome is known.
pub(super) const LANE: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET statement_timeout = '7s'";

/// For writers: a wait for a lock ends after this time, with an error and without a change. It is shorter
/// than the time limit of a request.
pub(super) const WRITER: &str = "SET lock_timeout = '20s'";

pub(super) const UPDATE: &str = commit!(preconditions!(), concat!(update!(), " AND ", bound!()), further!());

pub(super) const INSERT: &str = commit!(
    concat!(preconditions!(), created!()),
    concat!(
        "INSERT INTO resources (",
        resource_columns!(""),
        ") SELECT $1::text, $2::text, $3, $4::bigint, $5::text, $6::text, $7, $8, $9, $10, $11::bigint, $12, \
         $13::text, $14, $15 FROM created WHERE $23::text IS NULL AND ",
        bound!(),
        " ON CONFLICT DO NOTHING"
    ),
    further!()
);

#[cfg(test)]
pub(crate) const COMMIT: [&str; 22] = [
    TAKE_TURN,
    HELD_BACK,
    FOREIGN_TRANSACTIONS,
    FENCE,
    LOCK,
    LOCK_ABSENT,
    MOVE,
    MOVES,
    RESOURCES,
    UPDATE,
    INSERT,
    NOTE_SEEN,
    SEEN,
    SEEN_OF,
    OVERDUE,
    HEARD_WITHIN,
    MOMENT,
    NOTE_WATERMARK,
    REPLICAS,
    FORGET_SEEN,
    FORGET_LAPSED_LEASES,
    FORGET_GONE,
];
