-- One set of tables for every kind. Text times are RFC 3339 UTC with microseconds, so their order is the order of time.

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- Feed cursors name the epoch they belong to; a restored database has another one.
INSERT INTO meta (key, value) VALUES ('epoch', lower(hex(randomblob(8))));

-- version is also the sequence of the newest history row, head is that row's hash. due_at is when a job has to look at
-- the resource again; most have none.
CREATE TABLE resources (
    kind             TEXT    NOT NULL,
    id               TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    version          INTEGER NOT NULL,
    head             TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    document         TEXT    NOT NULL,
    labels           TEXT    NOT NULL,
    fields           TEXT    NOT NULL,
    keys             TEXT    NOT NULL,
    deleted          INTEGER NOT NULL,
    created_at       TEXT    NOT NULL,
    updated_at       TEXT    NOT NULL,
    state_changed_at TEXT    NOT NULL,
    due_at           TEXT,
    PRIMARY KEY (kind, id)
) STRICT;

CREATE INDEX resources_living ON resources (kind, id) WHERE deleted = 0;
CREATE INDEX resources_by_state ON resources (kind, state, id) WHERE deleted = 0;
CREATE INDEX resources_due ON resources (kind, due_at) WHERE deleted = 0 AND due_at IS NOT NULL;

-- Deleted resources are found by their name too.
CREATE INDEX resources_gone ON resources (kind, name, id) WHERE deleted = 1;

-- Deleted resources are listed on request, without a look at the living.
CREATE INDEX resources_deleted ON resources (kind, id) WHERE deleted = 1;
CREATE INDEX resources_deleted_by_state ON resources (kind, state, id) WHERE deleted = 1;

-- What living resources are found by: labels ('label/…') and filterable fields ('field/…').
CREATE TABLE terms (
    kind        TEXT NOT NULL,
    term        TEXT NOT NULL,
    value       TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    PRIMARY KEY (kind, term, value, resource_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX terms_by_resource ON terms (kind, resource_id, term, value);

-- What only one living resource of a kind may have, such as a MAC address.
CREATE TABLE resource_keys (
    kind        TEXT NOT NULL,
    key         TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- History has no foreign key: it outlives its resource.
CREATE TABLE history (
    position     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    kind         TEXT    NOT NULL,
    resource_id  TEXT    NOT NULL,
    sequence     INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    from_state   TEXT,
    to_state     TEXT    NOT NULL,
    triggered_by TEXT    NOT NULL,
    user_id      TEXT,
    comment      TEXT,
    metadata     TEXT,
    request_id   TEXT,
    created_at   TEXT    NOT NULL,
    hash         TEXT    NOT NULL,
    UNIQUE (kind, resource_id, sequence)
) STRICT;

CREATE TRIGGER history_no_update BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER history_no_delete BEFORE DELETE ON history
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
-- INSERT OR REPLACE deletes the row in its way without the triggers that refuse deletions. NEW.position is -1 where no
-- position is given. Each insert costs one look into an index that it is about to write to.
CREATE TRIGGER history_no_replace BEFORE INSERT ON history
WHEN (NEW.position <> -1 AND NEW.position <= (SELECT max(position) FROM history))
    OR EXISTS (SELECT 1 FROM history
        WHERE kind = NEW.kind AND resource_id = NEW.resource_id AND sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;

-- attempts counts tries that were begun, next_attempt_at is when the next one is due, last_error is the outcome of the
-- last one, and holder performs the effect until claimed_until (milliseconds of the database's clock).
CREATE TABLE effects (
    id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    kind            TEXT    NOT NULL,
    resource_id     TEXT    NOT NULL,
    sequence        INTEGER NOT NULL,
    type            TEXT    NOT NULL,
    payload         TEXT    NOT NULL,
    created_at      TEXT    NOT NULL,
    done_at         TEXT,
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at TEXT,
    last_error      TEXT,
    holder          TEXT,
    claimed_until   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX effects_pending ON effects (id) WHERE done_at IS NULL;
CREATE INDEX effects_by_resource ON effects (kind, resource_id, type, id);

-- xid and position say where in the feed the seal ends; row_count counts everything sealed so far.
CREATE TABLE checkpoints (
    number     INTEGER NOT NULL PRIMARY KEY,
    row_count  INTEGER NOT NULL,
    xid        INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    seal       TEXT    NOT NULL,
    created_at TEXT    NOT NULL,
    signature  TEXT    NOT NULL
) STRICT;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoints_no_replace BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

-- An answer of NULL is a claim: a server works on the request until expires_at. marker names the change that the request
-- made; it is written with that change, so that the request is never run twice.
CREATE TABLE idempotency (
    scope        TEXT NOT NULL,
    key          TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    status       INTEGER,
    answer       TEXT,
    expires_at   TEXT NOT NULL,
    marker       TEXT,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

-- Times of leases are milliseconds of the database's clock.
CREATE TABLE leases (
    name       TEXT    NOT NULL PRIMARY KEY,
    holder     TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Observed facts of a resource, one row for each source. A row has a version of its own, so that observers never contend
-- with changes of the resource.
CREATE TABLE observations (
    kind        TEXT    NOT NULL,
    resource_id TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    document    TEXT    NOT NULL,
    observed_at TEXT    NOT NULL,
    received_at TEXT    NOT NULL,
    PRIMARY KEY (kind, resource_id, source)
) STRICT, WITHOUT ROWID;

-- Written by PostgreSQL only, for other servers of a database; an embedded database has one server.
CREATE TABLE denied (
    position    INTEGER NOT NULL PRIMARY KEY,
    kind        TEXT    NOT NULL,
    resource_id TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    denied_at   INTEGER NOT NULL
) STRICT;

-- When each member was last heard is in a file of its own, liveness.db, so that beats and history never wait for each
-- other.
