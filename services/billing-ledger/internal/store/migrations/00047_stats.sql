-- Sums of what gateways reported of requests, for the figures that anybody may see. All of
-- it follows from request_report and hold, which are deleted sooner.
--
-- The fold makes the sums: one transaction takes the next reports in the order in which they
-- were recorded, adds them, and moves stats_fold on. So a crash neither loses a report nor
-- counts one twice.

-- +goose Up
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

-- The sums of the requests that were reported in a span of time: of the whole service, of a
-- model, or of a provider.
CREATE TABLE stats_sum (
    -- The length of the span in minutes: five minutes, an hour, or a day (UTC).
    span        smallint NOT NULL CONSTRAINT stats_sum_span CHECK (span IN (5, 60, 1440)),
    at          timestamptz NOT NULL,
    -- Empty for the whole service and for a provider.
    model_id    text NOT NULL,
    -- Zero for the whole service and for a model.
    provider_id uuid NOT NULL,
    requests    bigint NOT NULL,
    -- What tells how well requests are served, and how many of it were served: requests, of a
    -- provider attempts.
    judged      bigint NOT NULL,
    succeeded   bigint NOT NULL,
    retried     bigint NOT NULL,
    tokens      bigint NOT NULL,
    -- How many requests fell into each of 160 logarithmic buckets, null for none; empty where
    -- none fell into any. Of the time to first content in milliseconds, and of tokens a second.
    ttft        integer[] NOT NULL CONSTRAINT stats_sum_ttft CHECK (cardinality(ttft) IN (0, 160)),
    speed       integer[] NOT NULL CONSTRAINT stats_sum_speed CHECK (cardinality(speed) IN (0, 160)),
    -- Of a day: how many accounts had paid requests served. It is counted up to as many as figures need.
    accounts    smallint NOT NULL DEFAULT 0 CONSTRAINT stats_sum_accounts CHECK (accounts >= 0),
    PRIMARY KEY (span, at, model_id, provider_id),
    CONSTRAINT stats_sum_aligned CHECK (extract(epoch FROM at)::bigint % (span * 60) = 0),
    -- Finer figures of a model or a provider would tell what one consumer did.
    CONSTRAINT stats_sum_subject CHECK (CASE span WHEN 60
        THEN (model_id = '') <> (provider_id = '00000000-0000-0000-0000-000000000000')
        ELSE model_id = '' AND provider_id = '00000000-0000-0000-0000-000000000000' END),
    CONSTRAINT stats_sum_counts CHECK (0 <= succeeded AND succeeded <= judged AND 0 <= retried
        AND retried <= requests AND 0 <= tokens)
) WITH (fillfactor = 70);

-- Figures of the last two days rest on shorter spans, and figures of the last months on days.
CREATE TRIGGER stats_sum_is_kept BEFORE DELETE ON stats_sum
    FOR EACH ROW WHEN (OLD.at > now() - CASE OLD.span WHEN 1440 THEN interval '400 days' ELSE interval '2 days' END)
    EXECUTE FUNCTION refuse_change();

-- What an account did at a model or a provider in an hour. It says of how many accounts the
-- figures are, and how many of the account's failures count.
CREATE TABLE stats_use (
    at          timestamptz NOT NULL,
    -- As in stats_sum.
    model_id    text NOT NULL,
    provider_id uuid NOT NULL,
    account_id  uuid NOT NULL,
    served      integer NOT NULL,
    -- The account's requests that were tried and that nobody served, of a provider their failed
    -- attempts.
    failed      integer NOT NULL,
    PRIMARY KEY (at, model_id, provider_id, account_id),
    CONSTRAINT stats_use_aligned CHECK (extract(epoch FROM at)::bigint % 3600 = 0),
    CONSTRAINT stats_use_subject CHECK ((model_id = '') <> (provider_id = '00000000-0000-0000-0000-000000000000')),
    CONSTRAINT stats_use_counts CHECK (0 <= served AND 0 <= failed AND 0 < served + failed)
) WITH (fillfactor = 70);

CREATE TRIGGER stats_use_is_kept BEFORE DELETE ON stats_use
    FOR EACH ROW WHEN (OLD.at > now() - interval '2 days') EXECUTE FUNCTION refuse_change();

GRANT SELECT, UPDATE (until_at, last) ON stats_fold TO svc_billing;
GRANT SELECT, INSERT, DELETE ON stats_sum, stats_use TO svc_billing;
GRANT UPDATE (requests, judged, succeeded, retried, tokens, accounts, ttft, speed) ON stats_sum TO svc_billing;
GRANT UPDATE (served, failed) ON stats_use TO svc_billing;
