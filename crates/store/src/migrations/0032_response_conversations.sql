-- Conversations of the Responses API, and their items in their order.
CREATE TABLE response_conversations (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    size INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX response_conversations_expires ON response_conversations (expires_ms);

CREATE TABLE response_conversation_items (
    conversation TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (conversation, number)
) STRICT, WITHOUT ROWID;
