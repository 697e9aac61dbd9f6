-- More of what clients used: kinds of tokens, the time in plugins and of models, and latencies below 100 ms, which earlier
-- rows count as at most 100 ms.
ALTER TABLE usage ADD COLUMN le_10 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN le_25 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN le_50 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN plugin_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN model_ms INTEGER NOT NULL DEFAULT 0;
