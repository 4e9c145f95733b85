-- What providers earned. Lines, corrections, rulings and confirmations are only
-- ever added: the application role may neither update nor delete.

-- +goose Up
CREATE TABLE earning_line (
    day date NOT NULL,
    request_id uuid NOT NULL,
    provider_id uuid NOT NULL,
    attempt integer NOT NULL CHECK (attempt > 0),
    model_id text NOT NULL CHECK (model_id <> ''),
    price_version_id uuid NOT NULL,
    prompt_tokens bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens bigint NOT NULL CHECK (completion_tokens >= 0),
    payout_nano_usd bigint NOT NULL CHECK (payout_nano_usd >= 0),
    unit smallint NOT NULL DEFAULT 0 CHECK (unit BETWEEN 0 AND 2),
    evidence_source text NOT NULL DEFAULT 'hub' CONSTRAINT earning_line_evidence_source_known
        CHECK (evidence_source IN ('hub', 'gateway', 'receipt', 'ledger')),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id),
    CONSTRAINT earning_line_counts CHECK ((unit <> 1 OR prompt_tokens = 0) AND (unit <> 2 OR completion_tokens = 0))
);
COMMENT ON TABLE earning_line IS 'What a provider earned with one request. The day is the UTC day inside the request id, so that a late delivery meets the same row.';
COMMENT ON COLUMN earning_line.evidence_source IS 'On whose count the line rests: the hub''s journal, or, of a request whose hub told nothing, what the gateway relayed or what the provider signed that it sent; or the ledger''s word alone, where no usage came.';
COMMENT ON COLUMN earning_line.unit IS 'What was paid for: 0 tokens, 1 images, which are the completion, 2 milliseconds of audio, which are the prompt, at rates per minute.';

-- Answers the daily sums from the index alone.
CREATE INDEX earning_line_provider ON earning_line (day, provider_id) INCLUDE (payout_nano_usd);

-- Lines that were filled in from billing-ledger's accruals, because the usage of
-- their requests never came. They are few; the index is of those alone.
CREATE INDEX earning_line_filled ON earning_line (day, provider_id) WHERE evidence_source = 'ledger';

-- The ledger may settle by the same evidence source and yet otherwise: a hub that tells
-- two stories is believed at most one.
CREATE TABLE earning_correction (
    day date NOT NULL,
    request_id uuid NOT NULL,
    was_evidence_source text NOT NULL,
    was_provider_id uuid NOT NULL,
    was_payout_nano_usd bigint NOT NULL CHECK (was_payout_nano_usd >= 0),
    evidence_source text NOT NULL CHECK (evidence_source IN ('hub', 'gateway', 'receipt')),
    provider_id uuid NOT NULL,
    attempt integer CHECK (attempt > 0),
    model_id text CHECK (model_id <> ''),
    price_version_id uuid,
    prompt_tokens bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens bigint NOT NULL CHECK (completion_tokens >= 0),
    payout_nano_usd bigint NOT NULL CHECK (payout_nano_usd >= 0),
    unit smallint NOT NULL DEFAULT 0 CHECK (unit BETWEEN 0 AND 2),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id),
    FOREIGN KEY (day, request_id) REFERENCES earning_line,
    CONSTRAINT earning_correction_counts CHECK ((unit <> 1 OR prompt_tokens = 0) AND (unit <> 2 OR completion_tokens = 0))
);
COMMENT ON TABLE earning_correction IS 'What the ledger settled a request by, where something else was heard of here first. It takes the place of the line. Attempt, model and price are those of the line where this names none.';

CREATE TABLE earning_ruling (
    day date NOT NULL,
    request_id uuid NOT NULL,
    ruling integer NOT NULL CHECK (ruling > 0),
    settled boolean NOT NULL,
    evidence_source text CHECK (evidence_source IN ('hub', 'gateway', 'receipt')),
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
    CONSTRAINT earning_ruling_whole CHECK (num_nulls(evidence_source, provider_id, attempt, model_id, price_version_id,
        prompt_tokens, completion_tokens, payout_nano_usd, unit) = CASE WHEN settled THEN 0 ELSE 9 END),
    CONSTRAINT earning_ruling_counts CHECK ((unit <> 1 OR prompt_tokens = 0) AND (unit <> 2 OR completion_tokens = 0))
);
COMMENT ON TABLE earning_ruling IS 'What the ledger''s books were found to say of a line: that they have no such request (not settled), or again something else than stood here. They are counted from 1 for each line, and the last one takes the place of the line and of its correction.';

CREATE TABLE earning_confirmation (
    day date NOT NULL,
    request_id uuid NOT NULL,
    evidence_source text NOT NULL CHECK (evidence_source IN ('hub', 'gateway', 'receipt')),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id),
    FOREIGN KEY (day, request_id) REFERENCES earning_line
);
COMMENT ON TABLE earning_confirmation IS 'Usage that came after its request''s line had been filled in from the ledger, and says the same.';

CREATE TABLE quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reason text NOT NULL,
    request_id text NOT NULL DEFAULT '',
    payload bytea NOT NULL CHECK (length(payload) <= 65536),
    at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE quarantine IS 'Usage events that could not be taken as they are; a person looks at them.';

GRANT SELECT, INSERT ON earning_line, earning_correction, earning_ruling, earning_confirmation, quarantine TO svc_settlement;
