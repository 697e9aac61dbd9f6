-- Questions that wait for a person at one host, sealed, and the answers that other hosts send there: the host that asked
-- takes one of them. Rows of hosts that are gone are found by nobody.
CREATE TABLE questions (
    id      TEXT COLLATE "C" PRIMARY KEY,
    host_id TEXT COLLATE "C" NOT NULL,
    held    BOOLEAN NOT NULL,
    content TEXT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX questions_by_host ON questions (host_id);

CREATE TABLE question_answers (
    id       TEXT COLLATE "C" PRIMARY KEY,
    question TEXT COLLATE "C" NOT NULL,
    content  TEXT NOT NULL,
    state    BIGINT NOT NULL,
    at       BIGINT NOT NULL
);
CREATE INDEX question_answers_by_question ON question_answers (question);

-- Sessions of clients that any host goes on with, sealed.
CREATE TABLE client_sessions (
    id      TEXT COLLATE "C" PRIMARY KEY,
    content TEXT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX client_sessions_by_end ON client_sessions (ends_at);
