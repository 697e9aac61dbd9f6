-- What was stored for a plugin that is gone, when another file came under its id: its rows are under `ID@NUMBER`, with
-- the number of the version by which it went. Fate: 0 still there, 1 back under the id, 2 dropped.
CREATE TABLE set_aside (
    plugin TEXT NOT NULL,
    number INTEGER NOT NULL,
    fate INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (plugin, number)
) STRICT, WITHOUT ROWID;
