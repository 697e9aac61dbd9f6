-- Whole folders of scripts, uploaded together; texts are kept once each, by their hash.
CREATE TABLE script_sets (
    generation INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    author TEXT NOT NULL,
    manifest TEXT NOT NULL,
    signature TEXT,
    restored_from INTEGER
) STRICT;

CREATE TABLE script_texts (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE script_set_files (
    generation INTEGER NOT NULL,
    path TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (generation, path)
) STRICT, WITHOUT ROWID;
