-- When somebody has to look at a resource again; nothing for most of them.
ALTER TABLE resources ADD COLUMN due_at TEXT;

CREATE INDEX resources_due ON resources (kind, due_at) WHERE deleted = 0 AND due_at IS NOT NULL;

-- How far an effect is: tries that were begun, when the next one is due, what the last one said, and until when
-- (milliseconds of the database's clock) somebody is at it.
ALTER TABLE effects ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE effects ADD COLUMN next_attempt_at TEXT;
ALTER TABLE effects ADD COLUMN last_error TEXT;
ALTER TABLE effects ADD COLUMN holder TEXT;
ALTER TABLE effects ADD COLUMN claimed_until INTEGER NOT NULL DEFAULT 0;

CREATE INDEX effects_by_resource ON effects (kind, resource_id, type, id);

-- What a request has changed before it was answered: written with the change, so that it is never run twice.
ALTER TABLE idempotency ADD COLUMN marker TEXT;

-- What was seen of a resource, one row for each source. It has a version of its own: who observes never
-- contends with who decides.
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
