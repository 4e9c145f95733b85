-- +goose Up
ALTER TABLE earning_line
    ADD COLUMN witness text NOT NULL DEFAULT 'hub' CHECK (witness IN ('hub', 'gateway'));
COMMENT ON COLUMN earning_line.witness IS 'On whose count the line rests: the hub''s journal, or what the gateway relayed of a request whose hub told nothing.';

CREATE TABLE earning_correction (
    day date NOT NULL,
    request_id uuid NOT NULL,
    was_witness text NOT NULL,
    was_provider_id uuid NOT NULL,
    was_payout_nano_usd bigint NOT NULL CHECK (was_payout_nano_usd >= 0),
    witness text NOT NULL CHECK (witness IN ('hub', 'gateway')),
    provider_id uuid NOT NULL,
    prompt_tokens bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens bigint NOT NULL CHECK (completion_tokens >= 0),
    payout_nano_usd bigint NOT NULL CHECK (payout_nano_usd >= 0),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id),
    FOREIGN KEY (day, request_id) REFERENCES earning_line,
    CHECK (witness <> was_witness)
);
COMMENT ON TABLE earning_correction IS 'What the ledger settled a request by, where another witness of it was heard of here first. It takes the place of the line.';

GRANT SELECT, INSERT ON earning_correction TO svc_settlement;

-- +goose Down
DROP TABLE earning_correction;
ALTER TABLE earning_line DROP COLUMN witness;
