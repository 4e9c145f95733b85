-- Accounts, their wallets, limits and keys. Rows of this file are never
-- deleted, so nothing that refers to them needs a foreign key on the hot path.

-- +goose Up
CREATE TABLE account (
    id              uuid PRIMARY KEY,
    name            text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64),
    state           text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'frozen')),
    idempotency_key text UNIQUE CHECK (char_length(idempotency_key) BETWEEN 1 AND 255),
    created_at      timestamptz NOT NULL DEFAULT now()
);

-- What an account has (posted) and how much of it open holds have set aside
-- (held), in nano-USD. An overdraft cannot be written down. The upper bound of
-- a billion dollars keeps every sum far from the end of bigint.
--
-- The lock on an account's wallet also guards key_window and key_inflight of
-- all its keys: whoever changes those has locked the wallet first, and whoever
-- locks several wallets does so in the order of their ids.
CREATE TABLE wallet (
    account_id uuid PRIMARY KEY REFERENCES account,
    posted     bigint NOT NULL DEFAULT 0,
    held       bigint NOT NULL DEFAULT 0,
    CONSTRAINT wallet_bounds CHECK (posted >= 0 AND held >= 0 AND held <= posted),
    CONSTRAINT wallet_ceiling CHECK (posted <= 1000000000000000000)
) WITH (fillfactor = 70);

-- 0 takes the default of the category, -1 is without limit.
CREATE TABLE account_limits (
    account_id          uuid PRIMARY KEY REFERENCES account,
    requests_per_minute integer NOT NULL CHECK (requests_per_minute >= -1),
    concurrent_requests integer NOT NULL CHECK (concurrent_requests >= -1)
);

CREATE TABLE consumer_key (
    id             uuid PRIMARY KEY,
    account_id     uuid NOT NULL REFERENCES account,
    name           text NOT NULL CHECK (char_length(name) <= 64),
    -- HMAC-SHA-256, under the server's pepper, of the SHA-256 of the key.
    hash           bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    prefix         text NOT NULL CHECK (char_length(prefix) <= 12),
    state          text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'revoked')),
    -- Empty allows every model.
    allowed_models text[] NOT NULL DEFAULT '{}' CHECK (cardinality(allowed_models) <= 100),
    expires_at     timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now(),
    revoked_at     timestamptz,
    CHECK ((state = 'revoked') = (revoked_at IS NOT NULL))
);

CREATE INDEX consumer_key_active ON consumer_key (account_id) WHERE state = 'active';

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this row of % may not change any more', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER revoked_for_ever BEFORE UPDATE ON consumer_key
    FOR EACH ROW WHEN (OLD.state = 'revoked') EXECUTE FUNCTION refuse_change();

-- Requests admitted in one minute: one row for each key and class, which a new
-- minute takes over.
-- Classes: 1 llm, 2 multimodal, 3 embedding, 4 all zero-priced models together.
CREATE TABLE key_window (
    key_id uuid NOT NULL,
    class  smallint NOT NULL CHECK (class BETWEEN 1 AND 4),
    minute timestamptz NOT NULL CHECK (minute = date_trunc('minute', minute)),
    used   integer NOT NULL CHECK (used >= 0),
    PRIMARY KEY (key_id, class)
) WITH (fillfactor = 70);

-- How many holds of a key are open.
CREATE TABLE key_inflight (
    key_id uuid PRIMARY KEY REFERENCES consumer_key,
    n      integer NOT NULL DEFAULT 0,
    CONSTRAINT key_inflight_bounds CHECK (n BETWEEN 0 AND 1000000)
) WITH (fillfactor = 70);

GRANT SELECT, INSERT ON account, wallet, account_limits, consumer_key, key_window, key_inflight TO svc_billing;
GRANT UPDATE (posted, held) ON wallet TO svc_billing;
GRANT UPDATE (requests_per_minute, concurrent_requests) ON account_limits TO svc_billing;
GRANT UPDATE (state, revoked_at) ON consumer_key TO svc_billing;
GRANT UPDATE (minute, used) ON key_window TO svc_billing;
GRANT UPDATE (n) ON key_inflight TO svc_billing;
