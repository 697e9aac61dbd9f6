-- What operators have confirmed of guards: that one may be gone, may be off, or may become another version.
CREATE TABLE confirmed (
    plugin TEXT NOT NULL,
    what TEXT NOT NULL,
    author TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (plugin, what)
) STRICT, WITHOUT ROWID;
