-- Keys that operators handed out: what each allows, and the digest by which it is known. No row is deleted: while there
-- is one, requests need a key.
CREATE TABLE keys (
    name    TEXT PRIMARY KEY,
    digest  TEXT NOT NULL UNIQUE,
    rights  TEXT NOT NULL,
    used_at INTEGER
) STRICT, WITHOUT ROWID;
