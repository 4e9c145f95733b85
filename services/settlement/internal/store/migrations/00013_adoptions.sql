-- What was taken into a database that lost commits.

-- +goose Up
CREATE TABLE adoption (
    adoption_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    chain_id    bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    actor       text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason      text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE adoption IS 'When an operator had lost nonces and payouts of a chain taken into the database. Only ever added.';

CREATE TABLE adopted_call (
    chain_id    bigint NOT NULL,
    sender      bytea NOT NULL,
    nonce       bigint NOT NULL,
    adoption_id uuid NOT NULL REFERENCES adoption,
    what        text COLLATE "C" NOT NULL CHECK (what IN ('payout', 'sweep', 'collateral', 'cancel', 'unknown')),
    detail      text NOT NULL CHECK (char_length(detail) <= 500),
    PRIMARY KEY (chain_id, sender, nonce),
    FOREIGN KEY (chain_id, sender, nonce) REFERENCES chain_call
);
COMMENT ON TABLE adopted_call IS 'Calls, or transactions of calls, that were lost, and what they are. Only ever added.';

-- It is added before the payout's row, or before the steps that it allows.
CREATE TABLE adopted_payout (
    payout_id    uuid PRIMARY KEY,
    adoption_id  uuid NOT NULL REFERENCES adoption,
    -- When it was asked for, as far as the books know.
    requested_at timestamptz NOT NULL
);
COMMENT ON TABLE adopted_payout IS 'Payouts that were lost, whole or in part. What the chain has paid needs no consent. Only ever added.';

ALTER TABLE payout_change DROP CONSTRAINT payout_change_actor;
ALTER TABLE payout_change ADD CONSTRAINT payout_change_actor CHECK (CASE cause
    -- An operator asks for nothing: he has a lost request adopted.
    WHEN 'request' THEN actor ~ '^(user|wallet)' OR actor ~ '^operator' AND reason <> ''
    WHEN 'consent' THEN actor ~ '^operator' AND reason <> ''
    WHEN 'approve' THEN actor = 'platform' OR actor ~ '^operator' AND reason <> ''
    WHEN 'cancel' THEN actor ~ '^(user|wallet|operator)' AND reason <> ''
    ELSE actor = 'platform' END);

-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['adoption', 'adopted_call', 'adopted_payout'] LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION rows_are_kept()',
            name || '_keep', name);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept()',
            name || '_keep_all', name);
    END LOOP;
END $$;
-- +goose StatementEnd

GRANT SELECT, INSERT (chain_id, actor, reason) ON adoption TO svc_settlement;
GRANT SELECT, INSERT (chain_id, sender, nonce, adoption_id, what, detail) ON adopted_call TO svc_settlement;
GRANT SELECT, INSERT (payout_id, adoption_id, requested_at) ON adopted_payout TO svc_settlement;
