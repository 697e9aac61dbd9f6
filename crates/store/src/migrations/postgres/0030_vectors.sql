-- Vectors of scripts and of users, each space with a version that every change raises. Data and vector are sealed.
CREATE TABLE vector_spaces (
    plugin     TEXT COLLATE "C" NOT NULL,
    scope      TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    label      TEXT NOT NULL,
    dimensions BIGINT NOT NULL,
    count      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    PRIMARY KEY (plugin, scope)
);

CREATE TABLE vectors (
    plugin  TEXT COLLATE "C" NOT NULL,
    scope   TEXT COLLATE "C" NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    data    TEXT NOT NULL,
    vector  BYTEA NOT NULL,
    PRIMARY KEY (plugin, scope, id)
);
CREATE INDEX vectors_by_version ON vectors (plugin, scope, version);

-- The user that a conversation belongs to, where the host has verified who that is.
ALTER TABLE conversations ADD COLUMN verified_user TEXT COLLATE "C";
CREATE INDEX conversations_of_user ON conversations (verified_user, updated_at);
