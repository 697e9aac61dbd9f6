-- Values that people set are sealed with a key that is not in this file; this opens with that key only.
-- No row: nothing was sealed yet.
CREATE TABLE sealing (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    proof    TEXT NOT NULL
) STRICT;
