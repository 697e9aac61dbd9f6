-- Requests that ended, by the microseconds since 1970 at which they began. What is not selected by is sealed: the facts of the
-- request, which lists show, and its steps.
CREATE TABLE traces (
    id      TEXT COLLATE "C" PRIMARY KEY,
    at      BIGINT NOT NULL,
    api_key TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    model   TEXT COLLATE "C" NOT NULL,
    status  BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    took_ms BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    plugins TEXT COLLATE "C" NOT NULL,
    facts   BYTEA NOT NULL,
    steps   BYTEA NOT NULL
);

-- All that is selected by, except for plugins, so that a search does not read the sealed values.
CREATE INDEX traces_at ON traces (at, id, api_key, user_id, model, status, outcome, took_ms, size);
