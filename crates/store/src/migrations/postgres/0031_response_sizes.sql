-- The bytes of a response, so that those of a caller are counted without reading them.
ALTER TABLE responses ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
UPDATE responses SET size = octet_length(items) + octet_length(response);
CREATE INDEX responses_size ON responses (owner, expires_ms, size);
CREATE INDEX response_conversations_size ON response_conversations (owner, expires_ms, size);
