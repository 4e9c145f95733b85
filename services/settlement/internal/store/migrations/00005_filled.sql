-- Lines that are filled in from billing-ledger's accruals, because the usage of
-- their requests never came. Additive: the release before inserts lines and
-- corrections as it always did.

-- +goose Up
ALTER TABLE earning_line ADD CONSTRAINT earning_line_witness_known
    CHECK (witness IN ('hub', 'gateway', 'receipt', 'ledger')) NOT VALID;
ALTER TABLE earning_line VALIDATE CONSTRAINT earning_line_witness_known;
ALTER TABLE earning_line DROP CONSTRAINT earning_line_witness_check;
COMMENT ON COLUMN earning_line.witness IS 'On whose count the line rests: the hub''s journal, or, of a request whose hub told nothing, what the gateway relayed or what the provider signed that it sent; or the ledger''s word alone, where no usage came.';

-- Few lines are filled; the index is of those alone.
CREATE INDEX earning_line_filled ON earning_line (day, provider_id) WHERE witness = 'ledger';

CREATE TABLE earning_confirmation (
    day date NOT NULL,
    request_id uuid NOT NULL,
    witness text NOT NULL CHECK (witness IN ('hub', 'gateway', 'receipt')),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id),
    FOREIGN KEY (day, request_id) REFERENCES earning_line
);
COMMENT ON TABLE earning_confirmation IS 'Usage that came after its request''s line had been filled in from the ledger, and says the same.';

GRANT SELECT, INSERT ON earning_confirmation TO svc_settlement;

-- +goose Down
DROP TABLE earning_confirmation;
DROP INDEX earning_line_filled;
ALTER TABLE earning_line ADD CONSTRAINT earning_line_witness_check CHECK (witness IN ('hub', 'gateway', 'receipt'));
ALTER TABLE earning_line DROP CONSTRAINT earning_line_witness_known;
