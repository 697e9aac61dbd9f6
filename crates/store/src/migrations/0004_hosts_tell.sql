-- What a running host tells of its plugins: figures, and which of them rest.
ALTER TABLE hosts ADD COLUMN tells TEXT NOT NULL DEFAULT '{}';
