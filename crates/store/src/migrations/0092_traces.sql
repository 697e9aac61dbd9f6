-- Requests that ended, by the microseconds since 1970 at which they began. What is not selected by is sealed: the facts of the
-- request, which lists show, and its steps.
CREATE TABLE traces (
    id      TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    api_key TEXT NOT NULL,
    user_id TEXT NOT NULL,
    model   TEXT NOT NULL,
    status  INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    took_ms INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    plugins TEXT NOT NULL,
    facts   BLOB NOT NULL,
    steps   BLOB NOT NULL
) STRICT;

-- All that is selected by, except for plugins, so that a search does not read the sealed values.
CREATE INDEX traces_at ON traces (at, id, api_key, user_id, model, status, outcome, took_ms, size);
