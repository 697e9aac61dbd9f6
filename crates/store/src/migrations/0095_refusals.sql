-- The requests that each filter refused: sums of periods like those of `usage`.
CREATE TABLE refusals (
    step     INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    plugin   TEXT NOT NULL,
    refusals INTEGER NOT NULL,
    PRIMARY KEY (step, at, plugin)
) STRICT, WITHOUT ROWID;
