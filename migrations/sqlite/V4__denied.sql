-- What other servers have to be told; an embedded database has none, so nothing is ever written here.
CREATE TABLE denied (
    position         INTEGER NOT NULL PRIMARY KEY,
    kind             TEXT    NOT NULL,
    resource_id      TEXT    NOT NULL,
    version          INTEGER NOT NULL,
    denied_at        INTEGER NOT NULL
) STRICT;
