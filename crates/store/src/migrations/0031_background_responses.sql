-- Responses that are made while no client waits: the process that makes them, and the events they have so far.
ALTER TABLE responses ADD COLUMN runner TEXT NOT NULL DEFAULT '';
ALTER TABLE responses ADD COLUMN seen_ms INTEGER NOT NULL DEFAULT 0;

CREATE TABLE response_events (
    response TEXT NOT NULL,
    number INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (response, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX response_events_expires ON response_events (expires_ms);
