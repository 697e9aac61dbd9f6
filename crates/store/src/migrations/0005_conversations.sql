-- Numbers stand for ids inside: they are short, and later ones are larger.
CREATE TABLE conversations (
    number      INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    agent       TEXT NOT NULL,
    length      INTEGER NOT NULL,
    kept        TEXT NOT NULL,
    forked_from TEXT,
    shared      INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX conversations_by_time ON conversations (updated_at);
CREATE INDEX conversations_of_agent ON conversations (agent, updated_at);

-- With row ids: messages of some kilobytes would take nearly twice the room in a tree sorted by their key.
CREATE TABLE messages (
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    place        INTEGER NOT NULL,
    content      TEXT NOT NULL,
    PRIMARY KEY (conversation, place)
) STRICT;

CREATE TABLE runs (
    number       INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    status       TEXT NOT NULL,
    step         INTEGER NOT NULL,
    owner        TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    pending      TEXT NOT NULL,
    error        TEXT NOT NULL,
    seen_at      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_of_conversation ON runs (conversation);
CREATE INDEX runs_by_status ON runs (status);
CREATE UNIQUE INDEX one_run_can_go_on ON runs (conversation) WHERE status IN ('running', 'paused', 'failed');

CREATE TABLE checkpoints (
    id       TEXT PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    step     INTEGER NOT NULL,
    length   INTEGER NOT NULL,
    name     TEXT NOT NULL,
    state    TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    UNIQUE (run, step)
) STRICT;
