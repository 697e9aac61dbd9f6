-- More of what clients used: kinds of tokens, the time in plugins and of models, and latencies below 100 ms, which earlier
-- rows count as at most 100 ms.
ALTER TABLE usage ADD COLUMN le_10 BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN le_25 BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN le_50 BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN reasoning_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN plugin_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN model_ms BIGINT NOT NULL DEFAULT 0;
