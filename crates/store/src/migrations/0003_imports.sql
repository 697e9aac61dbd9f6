-- What the last good version of a script imports, with the text of it: a list.
ALTER TABLE last_good ADD COLUMN imports TEXT NOT NULL DEFAULT '[]';
