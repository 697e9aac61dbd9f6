-- The requests that each filter refused: sums of periods like those of `usage`.
CREATE TABLE refusals (
    step     BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    plugin   TEXT NOT NULL,
    refusals BIGINT NOT NULL,
    PRIMARY KEY (step, at, plugin)
);
