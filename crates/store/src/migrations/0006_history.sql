-- The texts of scripts, each once, by their SHA-256.
CREATE TABLE sources (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

-- Every state a plugin was in. No source: its file was gone. Enabled and global as in switches.
CREATE TABLE versions (
    plugin  TEXT NOT NULL,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    author  TEXT NOT NULL,
    action  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    place   TEXT NOT NULL,
    source  TEXT REFERENCES sources (hash),
    valves  TEXT NOT NULL,
    enabled INTEGER,
    global  INTEGER,
    PRIMARY KEY (plugin, version)
) STRICT;
CREATE INDEX versions_of_source ON versions (source);
