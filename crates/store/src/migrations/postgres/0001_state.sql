-- Texts are compared by their bytes, as everywhere else in the host.

-- Raised in the transaction of every change that a running host must see.
CREATE TABLE store (
    only_row   BIGINT PRIMARY KEY CHECK (only_row = 1),
    generation BIGINT NOT NULL
);
INSERT INTO store VALUES (1, 0);

-- What operators set for a plugin (user_id is null) and what users set for themselves. Null and not
-- "": a user whose id is empty must never meet the operator's row.
CREATE TABLE valves (
    plugin  TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C",
    content TEXT NOT NULL
);
CREATE UNIQUE INDEX valves_of_plugin ON valves (plugin) WHERE user_id IS NULL;
CREATE UNIQUE INDEX valves_of_user ON valves (plugin, user_id) WHERE user_id IS NOT NULL;

-- Null: the operator never said, so the configuration decides.
CREATE TABLE switches (
    plugin  TEXT COLLATE "C" PRIMARY KEY,
    enabled BOOLEAN,
    global  BOOLEAN
);

-- What operators grant plugins and native tools, beside what valvehouse.toml says.
CREATE TABLE grants (
    id      TEXT COLLATE "C" PRIMARY KEY,
    content TEXT NOT NULL
);

-- Imports: what the last good version of a script imports, with the text of it: a list.
CREATE TABLE last_good (
    id       TEXT COLLATE "C" PRIMARY KEY,
    path     TEXT NOT NULL,
    hash     TEXT NOT NULL,
    source   TEXT NOT NULL,
    imports  TEXT NOT NULL DEFAULT '[]',
    security BOOLEAN NOT NULL,
    saved_at BIGINT NOT NULL
);

CREATE TABLE kv (
    plugin     TEXT COLLATE "C" NOT NULL,
    scope      TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    value      TEXT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (plugin, scope, key)
);

-- Tells: what a running host tells of its plugins: figures, and which of them rest.
CREATE TABLE hosts (
    host_id            TEXT COLLATE "C" PRIMARY KEY,
    pid                BIGINT NOT NULL,
    applied_generation BIGINT NOT NULL,
    seen_at            BIGINT NOT NULL,
    tells              TEXT NOT NULL DEFAULT '{}'
);

-- Numbers stand for ids inside: they are short, and later ones are larger.
CREATE TABLE conversations (
    number      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT COLLATE "C" NOT NULL UNIQUE,
    agent       TEXT COLLATE "C" NOT NULL,
    length      BIGINT NOT NULL,
    kept        TEXT NOT NULL,
    forked_from TEXT,
    shared      BIGINT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE INDEX conversations_by_time ON conversations (updated_at);
CREATE INDEX conversations_of_agent ON conversations (agent, updated_at);

CREATE TABLE messages (
    conversation BIGINT NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    place        BIGINT NOT NULL,
    content      TEXT NOT NULL,
    PRIMARY KEY (conversation, place)
);

-- pid: the number of a process, and above its 32 bits a hash of the machine where it is one.
CREATE TABLE runs (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    conversation BIGINT NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    status       TEXT NOT NULL,
    step         BIGINT NOT NULL,
    owner        TEXT NOT NULL,
    pid          BIGINT NOT NULL,
    pending      TEXT NOT NULL,
    error        TEXT NOT NULL,
    seen_at      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
CREATE INDEX runs_of_conversation ON runs (conversation);
CREATE INDEX runs_by_status ON runs (status);
CREATE UNIQUE INDEX one_run_can_go_on ON runs (conversation) WHERE status IN ('running', 'paused', 'failed');

CREATE TABLE checkpoints (
    id       TEXT COLLATE "C" PRIMARY KEY,
    run      BIGINT NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    step     BIGINT NOT NULL,
    length   BIGINT NOT NULL,
    name     TEXT NOT NULL,
    state    TEXT NOT NULL,
    saved_at BIGINT NOT NULL,
    UNIQUE (run, step)
);

-- The texts of scripts, each once, by their SHA-256.
CREATE TABLE sources (
    hash TEXT COLLATE "C" PRIMARY KEY,
    text TEXT NOT NULL
);

-- Every state a plugin was in. No source: its file was gone. Enabled and global as in switches.
CREATE TABLE versions (
    plugin  TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    author  TEXT NOT NULL,
    action  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    place   TEXT NOT NULL,
    source  TEXT COLLATE "C" REFERENCES sources (hash),
    valves  TEXT NOT NULL,
    enabled BOOLEAN,
    global  BOOLEAN,
    PRIMARY KEY (plugin, version)
);
CREATE INDEX versions_of_source ON versions (source);

-- Values that people set are sealed with a key that is not in this database; this opens with that key only.
-- No row: nothing was sealed yet.
CREATE TABLE sealing (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    proof    TEXT NOT NULL
);

-- What operators have confirmed of guards: that one may be gone, may be off, or may become another version.
CREATE TABLE confirmed (
    plugin TEXT COLLATE "C" NOT NULL,
    what   TEXT COLLATE "C" NOT NULL,
    author TEXT NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (plugin, what)
);

-- What was stored for a plugin that is gone, when another file came under its id: its rows are under `ID@NUMBER`, with
-- the number of the version by which it went. Fate: 0 still there, 1 back under the id, 2 dropped.
CREATE TABLE set_aside (
    plugin TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    fate   BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (plugin, number)
);

-- The models that list a guard which runs for those alone: a model that drops out of the list is noticed.
CREATE TABLE guarded_models (
    plugin TEXT COLLATE "C" NOT NULL,
    model  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (plugin, model)
);

-- Responses of the Responses API, for clients that continue them by their id.
CREATE TABLE responses (
    id          TEXT COLLATE "C" PRIMARY KEY,
    owner       TEXT COLLATE "C" NOT NULL,
    expires_ms  BIGINT NOT NULL,
    input_items BIGINT NOT NULL,
    items       TEXT NOT NULL,
    response    TEXT NOT NULL
);
CREATE INDEX responses_expires ON responses (expires_ms);
CREATE INDEX responses_owner ON responses (owner, expires_ms);
