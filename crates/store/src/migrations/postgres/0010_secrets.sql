-- Texts that hosts keep for themselves, sealed: tokens of other services. And who is changing one just now.
CREATE TABLE secrets (
    name    TEXT COLLATE "C" PRIMARY KEY,
    content TEXT NOT NULL
);

CREATE TABLE secret_leases (
    name       TEXT COLLATE "C" PRIMARY KEY,
    holder     TEXT COLLATE "C" NOT NULL,
    expires_ms BIGINT NOT NULL
);
