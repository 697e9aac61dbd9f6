-- Keys that operators handed out: what each allows, and the digest by which it is known. No row is deleted: while there
-- is one, requests need a key.
CREATE TABLE keys (
    name    TEXT COLLATE "C" PRIMARY KEY,
    digest  TEXT COLLATE "C" NOT NULL UNIQUE,
    rights  TEXT NOT NULL,
    used_at BIGINT
);
