-- Responses that are made while no client waits: the process that makes them, and the events they have so far.
ALTER TABLE responses ADD COLUMN runner TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE responses ADD COLUMN seen_ms BIGINT NOT NULL DEFAULT 0;

CREATE TABLE response_events (
    response   TEXT COLLATE "C" NOT NULL,
    number     BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    event      TEXT NOT NULL,
    PRIMARY KEY (response, number)
);
CREATE INDEX response_events_expires ON response_events (expires_ms);
