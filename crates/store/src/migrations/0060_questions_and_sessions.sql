-- Questions that wait for a person at one host, sealed, and the answers that other hosts send there: the host that asked
-- takes one of them. Rows of hosts that are gone are found by nobody.
CREATE TABLE questions (
    id      TEXT PRIMARY KEY,
    host_id TEXT NOT NULL,
    held    INTEGER NOT NULL,
    content TEXT NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX questions_by_host ON questions (host_id);

CREATE TABLE question_answers (
    id       TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    content  TEXT NOT NULL,
    state    INTEGER NOT NULL,
    at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX question_answers_by_question ON question_answers (question);

-- Sessions of clients that any host goes on with, sealed.
CREATE TABLE client_sessions (
    id      TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX client_sessions_by_end ON client_sessions (ends_at);
