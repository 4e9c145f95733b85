-- Sums of what gateways reported of requests, for the figures that anybody may see. All of
-- it follows from request_report and hold, which are deleted sooner.
--
-- The fold makes the sums: one transaction takes the next reports in the order in which they
-- were recorded, adds them, and moves stats_fold on. So a crash neither loses a report nor
-- counts one twice.

-- +goose Up
CREATE INDEX request_report_recorded ON request_report (recorded_at);

-- How far the fold is: reports up to and with (until_at, last) are in the sums.
CREATE TABLE stats_fold (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    until_at timestamptz NOT NULL,
    last     uuid NOT NULL
);
CREATE TRIGGER stats_fold_moves_on BEFORE UPDATE ON stats_fold
    FOR EACH ROW WHEN ((NEW.until_at, NEW.last) < (OLD.until_at, OLD.last))
    EXECUTE FUNCTION refuse_change();

INSERT INTO stats_fold (until_at, last)
    SELECT coalesce(min(recorded_at), now()), '00000000-0000-0000-0000-000000000000' FROM request_report;

-- The sums of the requests of a model at a provider that were reported in a span of time.
CREATE TABLE stats_sum (
    -- The length of the span in minutes: five minutes, an hour, or a day (UTC).
    span        smallint NOT NULL CONSTRAINT stats_sum_span CHECK (span IN (5, 60, 1440)),
    at          timestamptz NOT NULL,
    model_id    text NOT NULL,
    -- Zero where no provider worked on the request.
    provider_id uuid NOT NULL,
    -- A number of svc.events.v1.ConnectionMode; 0 where it is not known.
    mode        smallint NOT NULL,
    requests    bigint NOT NULL,
    -- The requests that tell how well the service works, and those of them that were served.
    judged      bigint NOT NULL,
    succeeded   bigint NOT NULL,
    retried     bigint NOT NULL,
    -- Attempts of the provider that failed and that another attempt followed.
    failed_over bigint NOT NULL,
    tokens      bigint NOT NULL,
    -- How many requests fell into each of 160 logarithmic buckets, null for none; empty where
    -- none fell into any. Of the time to first content in milliseconds, and of tokens a second.
    ttft        integer[] NOT NULL CONSTRAINT stats_sum_ttft CHECK (cardinality(ttft) IN (0, 160)),
    speed       integer[] NOT NULL CONSTRAINT stats_sum_speed CHECK (cardinality(speed) IN (0, 160)),
    PRIMARY KEY (span, at, model_id, provider_id, mode),
    CONSTRAINT stats_sum_aligned CHECK (extract(epoch FROM at)::bigint % (span * 60) = 0),
    CONSTRAINT stats_sum_counts CHECK (0 <= succeeded AND succeeded <= judged AND judged <= requests
        AND 0 <= retried AND retried <= requests AND 0 <= failed_over AND 0 <= tokens)
) WITH (fillfactor = 70);

-- Figures of the last two days rest on spans of five minutes, and figures of the last months on days.
CREATE TRIGGER stats_sum_is_kept BEFORE DELETE ON stats_sum
    FOR EACH ROW WHEN (OLD.at > now() - CASE OLD.span WHEN 5 THEN interval '2 days'
        WHEN 60 THEN interval '35 days' ELSE interval '400 days' END)
    EXECUTE FUNCTION refuse_change();

GRANT SELECT, UPDATE (until_at, last) ON stats_fold TO svc_billing;
GRANT SELECT, INSERT, DELETE ON stats_sum TO svc_billing;
GRANT UPDATE (requests, judged, succeeded, retried, failed_over, tokens, ttft, speed) ON stats_sum TO svc_billing;
