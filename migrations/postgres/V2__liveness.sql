-- When each member was last heard, in milliseconds of the database's clock, and how often it beats (0: it never said).
-- Every row is rewritten again and again: room on each page lets that happen in place.
CREATE TABLE liveness (
    kind             TEXT COLLATE "C" NOT NULL,
    id               TEXT COLLATE "C" NOT NULL,
    seen_at          BIGINT           NOT NULL,
    every_seconds    BIGINT           NOT NULL,
    PRIMARY KEY (kind, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
