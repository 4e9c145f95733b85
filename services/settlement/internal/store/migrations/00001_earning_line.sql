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
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id)
);
COMMENT ON TABLE earning_line IS 'What a provider earned with one request. The day is the UTC day inside the request id, so that a late delivery meets the same row.';

-- Answers the daily sums from the index alone.
CREATE INDEX earning_line_provider ON earning_line (day, provider_id) INCLUDE (payout_nano_usd);

CREATE TABLE quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reason text NOT NULL,
    request_id text NOT NULL DEFAULT '',
    payload bytea NOT NULL CHECK (length(payload) <= 65536),
    at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE quarantine IS 'Usage events that could not be taken as they are; a person looks at them.';

GRANT SELECT, INSERT ON earning_line TO svc_settlement;
GRANT SELECT, INSERT ON quarantine TO svc_settlement;

-- +goose Down
DROP TABLE quarantine;
DROP TABLE earning_line;
