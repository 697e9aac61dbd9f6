-- The switch of audit mode, beside those of switches.
ALTER TABLE switches ADD COLUMN audit BOOLEAN;
ALTER TABLE versions ADD COLUMN audit BOOLEAN;
