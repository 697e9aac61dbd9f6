-- What operators grant plugins and native tools, beside what valvehouse.toml says.
CREATE TABLE grants (
    id      TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;
