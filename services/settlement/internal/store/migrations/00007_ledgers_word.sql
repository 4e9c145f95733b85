-- What the ledger settled is the truth, whatever was heard here first. Additive:
-- the release before inserts lines and corrections as it always did; its key on
-- corrections stays, and so there is one of a line.

-- +goose Up
-- The ledger may settle by the same witness and yet otherwise: a hub that tells
-- two stories is believed at most one.
ALTER TABLE earning_correction
    DROP CONSTRAINT earning_correction_check,
    ADD COLUMN attempt integer CHECK (attempt > 0),
    ADD COLUMN model_id text CHECK (model_id <> ''),
    ADD COLUMN price_version_id uuid;
COMMENT ON TABLE earning_correction IS 'What the ledger settled a request by, where something else was heard of here first. It takes the place of the line. Attempt, model and price are those of the line where this names none.';

CREATE TABLE earning_ruling (
    day date NOT NULL,
    request_id uuid NOT NULL,
    ruling integer NOT NULL CHECK (ruling > 0),
    settled boolean NOT NULL,
    witness text CHECK (witness IN ('hub', 'gateway', 'receipt')),
    provider_id uuid,
    attempt integer CHECK (attempt > 0),
    model_id text CHECK (model_id <> ''),
    price_version_id uuid,
    prompt_tokens bigint CHECK (prompt_tokens >= 0),
    completion_tokens bigint CHECK (completion_tokens >= 0),
    payout_nano_usd bigint CHECK (payout_nano_usd >= 0),
    unit smallint CHECK (unit BETWEEN 0 AND 2),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id, ruling),
    FOREIGN KEY (day, request_id) REFERENCES earning_line,
    CONSTRAINT earning_ruling_whole CHECK (num_nulls(witness, provider_id, attempt, model_id, price_version_id,
        prompt_tokens, completion_tokens, payout_nano_usd, unit) = CASE WHEN settled THEN 0 ELSE 9 END),
    CONSTRAINT earning_ruling_counts CHECK ((unit <> 1 OR prompt_tokens = 0) AND (unit <> 2 OR completion_tokens = 0))
);
COMMENT ON TABLE earning_ruling IS 'What the ledger''s books were found to say of a line: that they have no such request (not settled), or again something else than stood here. They are counted from 1 for each line, and the last one takes the place of the line and of its correction.';

CREATE VIEW earning AS
SELECT l.day, l.request_id, coalesce(r.settled, true) AS settled,
       coalesce(r.witness, c.witness, l.witness) AS witness,
       coalesce(r.provider_id, c.provider_id, l.provider_id) AS provider_id,
       coalesce(r.attempt, c.attempt, l.attempt) AS attempt,
       coalesce(r.model_id, c.model_id, l.model_id) AS model_id,
       coalesce(r.price_version_id, c.price_version_id, l.price_version_id) AS price_version_id,
       coalesce(r.prompt_tokens, c.prompt_tokens, l.prompt_tokens) AS prompt_tokens,
       coalesce(r.completion_tokens, c.completion_tokens, l.completion_tokens) AS completion_tokens,
       coalesce(r.payout_nano_usd, c.payout_nano_usd, l.payout_nano_usd) AS payout_nano_usd,
       coalesce(r.unit, c.unit, l.unit) AS unit,
       coalesce(r.ruling, 0) AS rulings, r.ruling IS NOT NULL OR c.day IS NOT NULL AS overruled, l.recorded_at
FROM earning_line l
LEFT JOIN earning_correction c ON c.day = l.day AND c.request_id = l.request_id
LEFT JOIN LATERAL (
    SELECT * FROM earning_ruling r WHERE r.day = l.day AND r.request_id = l.request_id ORDER BY r.ruling DESC LIMIT 1
) r ON true;
COMMENT ON VIEW earning IS 'What counts of each line. Of one that is not settled, nothing does.';

GRANT SELECT, INSERT ON earning_ruling TO svc_settlement;
GRANT SELECT ON earning TO svc_settlement;

-- +goose Down
DROP VIEW earning;
DROP TABLE earning_ruling;
-- Corrections by the line's own witness stand already.
ALTER TABLE earning_correction
    DROP COLUMN price_version_id, DROP COLUMN model_id, DROP COLUMN attempt,
    ADD CONSTRAINT earning_correction_check CHECK (witness <> was_witness) NOT VALID;
