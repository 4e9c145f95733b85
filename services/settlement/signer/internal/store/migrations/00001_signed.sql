-- What the signer has signed. Rows are only added.

-- +goose Up
CREATE TABLE signed_nonce (
    chain_id  bigint NOT NULL CHECK (chain_id > 0),
    -- The address of the key.
    sender    bytea NOT NULL CHECK (octet_length(sender) = 20),
    nonce     bigint NOT NULL CHECK (nonce >= 0),
    -- A nonce has one content, and beside it one cancel.
    cancel    boolean NOT NULL,
    -- keccak256 over chain, sender, nonce, destination, value and data.
    call_hash bytea NOT NULL CHECK (octet_length(call_hash) = 32),
    key       text COLLATE "C" NOT NULL
        CHECK (key IN ('payout', 'operator', 'slasher', 'arbiter', 'gas', 'deposit')),
    -- The token's contract; zero for the coin.
    asset     bytea NOT NULL CHECK (octet_length(asset) = 20),
    amount    numeric(78, 0) NOT NULL CHECK (amount >= 0),
    -- Whether the amount counts against the day's cap; otherwise it goes to the treasury.
    capped    boolean NOT NULL,
    day       date NOT NULL,
    signed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, sender, nonce, cancel),
    CONSTRAINT signed_nonce_cancel_moves_nothing CHECK (NOT cancel OR (amount = 0 AND NOT capped)),
    -- The day is read before the row is written, with the key's lock held between the two.
    CONSTRAINT signed_nonce_day CHECK (day IN (
        (signed_at AT TIME ZONE 'UTC')::date, ((signed_at AT TIME ZONE 'UTC') - interval '1 minute')::date))
);
COMMENT ON TABLE signed_nonce IS 'The content of each nonce, committed before it is signed. Only ever added.';
CREATE INDEX signed_nonce_by_day ON signed_nonce (chain_id, key, asset, day) INCLUDE (amount) WHERE capped;

CREATE TABLE signed_fee (
    chain_id  bigint NOT NULL,
    sender    bytea NOT NULL,
    nonce     bigint NOT NULL,
    -- The most that the nonce can cost from here on, in wei.
    ceiling   numeric(78, 0) NOT NULL CHECK (ceiling > 0),
    -- How much more that is than before.
    increase  numeric(78, 0) NOT NULL CHECK (increase > 0 AND increase <= ceiling),
    key       text COLLATE "C" NOT NULL,
    day       date NOT NULL,
    signed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, sender, nonce, ceiling),
    CONSTRAINT signed_fee_day CHECK (day IN (
        (signed_at AT TIME ZONE 'UTC')::date, ((signed_at AT TIME ZONE 'UTC') - interval '1 minute')::date))
);
COMMENT ON TABLE signed_fee IS 'What each nonce can cost, and by how much each signature raised that. Only ever added.';
CREATE INDEX signed_fee_by_day ON signed_fee (chain_id, key, day) INCLUDE (increase);

CREATE TRIGGER signed_nonce_fits BEFORE INSERT ON signed_nonce FOR EACH ROW EXECUTE FUNCTION signed_nonce_fits();
CREATE TRIGGER signed_fee_follows BEFORE INSERT ON signed_fee FOR EACH ROW EXECUTE FUNCTION signed_fee_follows();
CREATE TRIGGER signed_nonce_keep BEFORE UPDATE OR DELETE ON signed_nonce FOR EACH ROW EXECUTE FUNCTION signed_keep();
CREATE TRIGGER signed_nonce_keep_all BEFORE TRUNCATE ON signed_nonce FOR EACH STATEMENT EXECUTE FUNCTION signed_keep();
CREATE TRIGGER signed_fee_keep BEFORE UPDATE OR DELETE ON signed_fee FOR EACH ROW EXECUTE FUNCTION signed_keep();
CREATE TRIGGER signed_fee_keep_all BEFORE TRUNCATE ON signed_fee FOR EACH STATEMENT EXECUTE FUNCTION signed_keep();

GRANT SELECT, INSERT (chain_id, sender, nonce, cancel, call_hash, key, asset, amount, capped, day)
    ON signed_nonce TO svc_signer;
GRANT SELECT, INSERT (chain_id, sender, nonce, ceiling, increase, key, day) ON signed_fee TO svc_signer;
