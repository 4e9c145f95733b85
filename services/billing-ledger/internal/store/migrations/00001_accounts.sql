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
-- The lock on an account's wallet also guards key_rate and key_inflight of
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
-- Finds the keys of an account that may have requests under way.
CREATE INDEX consumer_key_of_account ON consumer_key (account_id, coalesce(revoked_at, 'infinity'::timestamptz));

CREATE TRIGGER revoked_for_ever BEFORE UPDATE ON consumer_key
    FOR EACH ROW WHEN (OLD.state = 'revoked') EXECUTE FUNCTION refuse_change();

-- The rates of keys and plans, by the generic cell rate algorithm: a limit of n a
-- minute lets n begin at once and another each minute/n. full_at is when the whole
-- limit is free again; each request moves it on by minute/n, from now or from
-- where it is. So no span of time of any length w sees more than n + w/(minute/n)
-- begin, whichever way it lies.
-- Classes: 1 llm, 2 multimodal, 3 embedding, 4 all zero-priced models together,
-- 5 image, 6 audio.
CREATE TABLE key_rate (
    key_id  uuid NOT NULL,
    class   smallint NOT NULL CHECK (class BETWEEN 1 AND 6),
    full_at timestamptz NOT NULL,
    PRIMARY KEY (key_id, class)
) WITH (fillfactor = 70);

-- The rate of the zero-priced models (class 4), guarded like key_rate by the lock on
-- the account's wallet.
--
-- Class 7 counts requests whose client left at once: their prompts were had for
-- nothing, so there may be no more than 30 a minute of an account. It is moved on by
-- two seconds for each of them; beyond 58 seconds ahead no request begins, and who
-- comes there waits ten more: see leftAtOnce of the store. Its writers have no lock
-- but that of the row. Only admit reads it, and one that reads a little less lets
-- one request more begin.
CREATE TABLE account_rate (
    account_id uuid NOT NULL REFERENCES account,
    class      smallint NOT NULL CHECK (class IN (4, 7)),
    full_at    timestamptz NOT NULL,
    PRIMARY KEY (account_id, class)
) WITH (fillfactor = 70);

-- How many open holds of a key have no request report: the place of a request ends with
-- the gateway's word, or with its hold when that comes first.
CREATE TABLE key_inflight (
    key_id uuid PRIMARY KEY REFERENCES consumer_key,
    n      integer NOT NULL DEFAULT 0,
    CONSTRAINT key_inflight_bounds CHECK (n BETWEEN 0 AND 1000000)
) WITH (fillfactor = 70);

-- An account is in the state of its last change; without one it is open.
CREATE TABLE account_state_change (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account,
    state      text NOT NULL CHECK (state IN ('open', 'frozen')),
    memo       text NOT NULL CHECK (char_length(memo) <= 200),
    at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX account_state_change_account ON account_state_change (account_id, id);
CREATE TRIGGER account_state_change_stays BEFORE UPDATE OR DELETE ON account_state_change
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE CONSTRAINT TRIGGER account_state_is_kept AFTER INSERT OR UPDATE OF state ON account
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_account_state();
CREATE CONSTRAINT TRIGGER account_state_change_is_made AFTER INSERT ON account_state_change
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_account_state();

-- What operators did, each with the name of the operator who acted
-- (operator:alice) and in the transaction that did it. What changes nothing leaves
-- no entry. Subject is what was acted on: an account, a key, or a request.
CREATE TABLE operator_action (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    action  text NOT NULL CHECK (action IN ('create_account', 'grant_credit', 'set_limits', 'set_plan', 'set_state',
        'issue_key', 'revoke_key', 'release_earnings')),
    subject uuid NOT NULL,
    detail  jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object' AND octet_length(detail::text) <= 4096)
);
CREATE INDEX operator_action_subject ON operator_action (subject, id);
CREATE TRIGGER operator_action_stays BEFORE UPDATE OR DELETE ON operator_action
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER operator_action_stays_all BEFORE TRUNCATE ON operator_action
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT ON account, wallet, account_limits, consumer_key, key_rate, account_rate, key_inflight,
    account_state_change TO svc_billing;
GRANT UPDATE (state) ON account TO svc_billing;
GRANT UPDATE (posted, held) ON wallet TO svc_billing;
GRANT UPDATE (requests_per_minute, concurrent_requests) ON account_limits TO svc_billing;
GRANT UPDATE (state, revoked_at) ON consumer_key TO svc_billing;
GRANT UPDATE (full_at) ON key_rate, account_rate TO svc_billing;
GRANT UPDATE (n) ON key_inflight TO svc_billing;
GRANT SELECT, INSERT (actor, action, subject, detail) ON operator_action TO svc_billing;
