-- Texts that hosts keep for themselves, sealed: tokens of other services. And who is changing one just now.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secret_leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
