-- Conversations of the Responses API, and their items in their order.
CREATE TABLE response_conversations (
    id         TEXT COLLATE "C" PRIMARY KEY,
    owner      TEXT COLLATE "C" NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    metadata   TEXT NOT NULL,
    size       BIGINT NOT NULL
);
CREATE INDEX response_conversations_expires ON response_conversations (expires_ms);

CREATE TABLE response_conversation_items (
    conversation TEXT COLLATE "C" NOT NULL,
    number       BIGINT NOT NULL,
    id           TEXT COLLATE "C" NOT NULL,
    item         TEXT NOT NULL,
    PRIMARY KEY (conversation, number)
);
