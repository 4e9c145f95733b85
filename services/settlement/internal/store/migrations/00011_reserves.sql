-- What the platform holds beside what it owes, as it was last read, and the halts of payouts that follow from it.

-- +goose Up
-- The next look at each chain, and at the books (0). Who puts a look off makes it.
CREATE TABLE reserve_look (
    chain_id bigint PRIMARY KEY CHECK (chain_id IN (0, 1, 254, 8453)),
    due_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE reserve_look IS 'When reserves are read next: of each chain, and of the books as a whole, which are chain 0.';

CREATE TABLE reserve (
    -- A token, the collateral contract of a chain, or the books as a whole.
    subject   text COLLATE "C" PRIMARY KEY CHECK (subject ~ '^(books|(1|254|8453):[a-z]{3,10})$'),
    chain_id  bigint NOT NULL CHECK (chain_id::text = CASE subject WHEN 'books' THEN '0' ELSE split_part(subject, ':', 1) END),
    -- The final block of the reading; of the books the second of the ledger's clock.
    read_place bigint NOT NULL CHECK (read_place >= 0),
    -- In the smallest units of the token; of the books nano-USD.
    held      numeric(78,0) NOT NULL CHECK (held >= 0),
    owed      numeric(78,0) NOT NULL CHECK (owed >= 0),
    short     boolean NOT NULL GENERATED ALWAYS AS (held < owed) STORED,
    -- Readings in a row, at different places, that are all short or all not.
    in_row    integer NOT NULL CHECK (in_row > 0),
    confirmed boolean NOT NULL,
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    read_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- One reading alone decides nothing.
    CONSTRAINT reserve_confirmed CHECK (in_row < 2 OR confirmed = (held < owed))
);
COMMENT ON TABLE reserve IS 'What is held of each subject and what is owed, by the last reading. A shortfall, and its end, is confirmed by a second reading.';

CREATE TRIGGER reserve_moves BEFORE INSERT OR UPDATE ON reserve FOR EACH ROW EXECUTE FUNCTION reserve_moves();
CREATE TRIGGER reserve_keep BEFORE DELETE ON reserve FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER reserve_keep_all BEFORE TRUNCATE ON reserve FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept();

ALTER TABLE sending_halt DROP CONSTRAINT sending_halt_cause_check;
ALTER TABLE sending_halt ADD CONSTRAINT sending_halt_cause_check CHECK (cause IN
    ('nonce_ahead', 'unknown_transaction', 'final_reorged', 'signer_refuses', 'operator', 'reserves'));
-- What two readings halted, two readings lift.
ALTER TABLE sending_halt DROP CONSTRAINT sending_halt_lifted_by_check;
ALTER TABLE sending_halt ADD CONSTRAINT sending_halt_lifted_by_check CHECK
    (lifted_by ~ '^operator(:[a-z0-9._@-]{1,64})?$' OR lifted_by = 'platform' AND cause = 'reserves');
COMMENT ON TABLE sending_halt IS 'Why nothing new is sent on a chain, or, of reserves, no payout. An operator lifts a halt with a reason; where its cause stands it comes again. That of reserves is lifted by the readings that find no shortfall.';

GRANT SELECT, INSERT (chain_id), UPDATE (due_at) ON reserve_look TO svc_settlement;
GRANT SELECT, INSERT (subject, chain_id, read_place, held, owed, in_row, confirmed),
    UPDATE (read_place, held, owed, in_row, confirmed) ON reserve TO svc_settlement;
