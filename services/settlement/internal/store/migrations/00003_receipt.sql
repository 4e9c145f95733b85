-- +goose Up
ALTER TABLE earning_line DROP CONSTRAINT earning_line_witness_check;
ALTER TABLE earning_line ADD CONSTRAINT earning_line_witness_check CHECK (witness IN ('hub', 'gateway', 'receipt'));
COMMENT ON COLUMN earning_line.witness IS 'On whose count the line rests: the hub''s journal, or, of a request whose hub told nothing, what the gateway relayed or what the provider signed that it sent.';
ALTER TABLE earning_correction DROP CONSTRAINT earning_correction_witness_check;
ALTER TABLE earning_correction ADD CONSTRAINT earning_correction_witness_check CHECK (witness IN ('hub', 'gateway', 'receipt'));

-- +goose Down
ALTER TABLE earning_correction DROP CONSTRAINT earning_correction_witness_check;
ALTER TABLE earning_correction ADD CONSTRAINT earning_correction_witness_check CHECK (witness IN ('hub', 'gateway'));
ALTER TABLE earning_line DROP CONSTRAINT earning_line_witness_check;
ALTER TABLE earning_line ADD CONSTRAINT earning_line_witness_check CHECK (witness IN ('hub', 'gateway'));
