-- Vectors of scripts and of users, each space with a version that every change raises. Data and vector are sealed.
CREATE TABLE vector_spaces (
    plugin     TEXT NOT NULL,
    scope      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    label      TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    PRIMARY KEY (plugin, scope)
) STRICT;

CREATE TABLE vectors (
    plugin  TEXT NOT NULL,
    scope   TEXT NOT NULL,
    id      TEXT NOT NULL,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    data    TEXT NOT NULL,
    vector  BLOB NOT NULL,
    PRIMARY KEY (plugin, scope, id)
) STRICT;
CREATE INDEX vectors_by_version ON vectors (plugin, scope, version);

-- The user that a conversation belongs to, where the host has verified who that is.
ALTER TABLE conversations ADD COLUMN verified_user TEXT;
CREATE INDEX conversations_of_user ON conversations (verified_user, updated_at);
