-- The switch of audit mode, beside those of switches.
ALTER TABLE switches ADD COLUMN audit INTEGER;
ALTER TABLE versions ADD COLUMN audit INTEGER;
