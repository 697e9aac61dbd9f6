-- Responses of the Responses API, for clients that continue them by their id.
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    input_items INTEGER NOT NULL,
    items TEXT NOT NULL,
    response TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX responses_expires ON responses (expires_ms);
CREATE INDEX responses_owner ON responses (owner, expires_ms);
