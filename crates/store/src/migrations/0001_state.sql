-- Raised in the transaction of every change that a running host must see.
CREATE TABLE store (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO store VALUES (1, 0);

-- What operators set for a plugin (user_id is null) and what users set for themselves. Null and not
-- "": a user whose id is empty must never meet the operator's row.
CREATE TABLE valves (
    plugin  TEXT NOT NULL,
    user_id TEXT,
    content TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX valves_of_plugin ON valves (plugin) WHERE user_id IS NULL;
CREATE UNIQUE INDEX valves_of_user ON valves (plugin, user_id) WHERE user_id IS NOT NULL;

-- Null: the operator never said, so the configuration decides.
CREATE TABLE switches (
    plugin  TEXT PRIMARY KEY,
    enabled INTEGER,
    global  INTEGER
) STRICT;

CREATE TABLE last_good (
    id       TEXT PRIMARY KEY,
    path     TEXT NOT NULL,
    hash     TEXT NOT NULL,
    source   TEXT NOT NULL,
    security INTEGER NOT NULL,
    saved_at INTEGER NOT NULL
) STRICT;

CREATE TABLE kv (
    plugin     TEXT NOT NULL,
    scope      TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (plugin, scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE hosts (
    host_id            TEXT PRIMARY KEY,
    pid                INTEGER NOT NULL,
    applied_generation INTEGER NOT NULL,
    seen_at            INTEGER NOT NULL
) STRICT;
