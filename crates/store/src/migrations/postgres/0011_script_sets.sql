-- Whole folders of scripts, uploaded together; texts are kept once each, by their hash.
CREATE TABLE script_sets (
    generation    BIGINT PRIMARY KEY,
    at            BIGINT NOT NULL,
    author        TEXT NOT NULL,
    manifest      TEXT NOT NULL,
    signature     TEXT,
    restored_from BIGINT
);

CREATE TABLE script_texts (
    hash TEXT COLLATE "C" PRIMARY KEY,
    text TEXT NOT NULL
);

CREATE TABLE script_set_files (
    generation BIGINT NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    hash       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (generation, path)
);
