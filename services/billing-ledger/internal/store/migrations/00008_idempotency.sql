-- What is remembered of requests that carried an Idempotency-Key, for 24 hours,
-- and of the visits of those without a key of ours, for their window. Answers are in
-- a store of their own, kept, which has a quota of bytes for each account and one in
-- all, and which forgets by the hour: no row of an answer is ever deleted, its table
-- is emptied whole.

-- +goose Up

-- How many claims each key has. Its row is the lock under which all of the key's
-- claims are made and ended.
CREATE TABLE idempotency_quota (
    key_id uuid PRIMARY KEY REFERENCES consumer_key (id),
    live   integer NOT NULL CHECK (live BETWEEN 0 AND 10000)
);

-- How many claims the keys of an account have together: an account has up to 100
-- keys at a time, and may revoke them and make others.
CREATE TABLE idempotency_account (
    account_id uuid PRIMARY KEY REFERENCES account,
    live       integer NOT NULL CHECK (live >= 0)
) WITH (fillfactor = 70);

CREATE TABLE idempotency_claim (
    key_id         uuid NOT NULL REFERENCES consumer_key (id),
    token_sha256   bytea NOT NULL CHECK (octet_length(token_sha256) = 32),
    -- Of route and body: the same token with another one is refused.
    request_sha256 bytea NOT NULL CHECK (octet_length(request_sha256) = 32),
    -- Who has the claim.
    request_id     uuid NOT NULL,
    state          text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'answered', 'not_kept')),
    leased_until   timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    -- An answer, of a release that kept it here: 1 MiB, and what it takes to seal it.
    sealed         bytea CHECK (octet_length(sealed) BETWEEN 1 AND 1052672),
    -- The slot of kept.hour that has its answer.
    kept_slot      smallint CHECK (kept_slot BETWEEN 0 AND 25),
    PRIMARY KEY (key_id, token_sha256),
    CONSTRAINT idempotency_claim_answer
        CHECK ((state = 'answered') = (num_nonnulls(sealed, kept_slot) = 1) AND num_nonnulls(sealed, kept_slot) <= 1)
);

CREATE INDEX idempotency_claim_expires ON idempotency_claim (expires_at);

-- What is sealed cannot be compressed.
ALTER TABLE idempotency_claim ALTER COLUMN sealed SET STORAGE EXTERNAL;

CREATE TRIGGER idempotency_claim_comes AFTER INSERT ON idempotency_claim
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_claims();
CREATE TRIGGER idempotency_claim_goes AFTER DELETE ON idempotency_claim
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_claims();

-- What was answered stands until it is forgotten.
CREATE TRIGGER idempotency_claim_ends_once BEFORE UPDATE ON idempotency_claim
    FOR EACH ROW WHEN (OLD.state <> 'running') EXECUTE FUNCTION refuse_change();

-- Visitors without a key of ours, by a keyed hash of their address.
CREATE TABLE visitor (
    address    bytea PRIMARY KEY CHECK (octet_length(address) = 32),
    -- When each visit that still counts was made.
    taken_at   timestamptz[] NOT NULL CHECK (cardinality(taken_at) <= 1000),
    expires_at timestamptz NOT NULL
);

CREATE INDEX visitor_expires ON visitor (expires_at);

-- A ring of 26 slots, one for each hour: the hour under way, 24 that must be
-- remembered in full or in part, and one that is emptied for the next hour. All
-- tables are made here, because the service's login may make none.
CREATE TABLE kept.hour (
    slot   smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 25),
    -- Which hour since 1970 the slot is for; an empty slot has no row.
    hour   bigint NOT NULL CHECK (hour % 26 = slot),
    bytes  bigint NOT NULL CHECK (bytes > 0),
    -- How much of it is of accounts that had not paid when it was kept.
    unpaid bigint NOT NULL DEFAULT 0,
    CONSTRAINT hour_unpaid_check CHECK (unpaid BETWEEN 0 AND bytes)
) WITH (fillfactor = 50);

CREATE TABLE kept.answer (
    slot       smallint NOT NULL,
    request_id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- 1 MiB of answer, and what it takes to seal it.
    sealed     bytea NOT NULL CHECK (octet_length(sealed) BETWEEN 1 AND 1052672),
    PRIMARY KEY (slot, request_id)
) PARTITION BY LIST (slot);
-- What is sealed cannot be compressed.
ALTER TABLE kept.answer ALTER COLUMN sealed SET STORAGE EXTERNAL;

-- How much of an hour is an account's. It is emptied together with the answers
-- that it counts, so it cannot drift from them.
CREATE TABLE kept.tally (
    account_id uuid NOT NULL,
    slot       smallint NOT NULL,
    -- An account's quota holds for all hours together, and so for each.
    bytes      bigint NOT NULL CHECK (bytes BETWEEN 1 AND 67108864),
    PRIMARY KEY (account_id, slot)
) PARTITION BY LIST (slot);

-- Nothing but TRUNCATE frees anything here. A vacuum would find nothing to do,
-- and TRUNCATE would have to wait for it.
-- +goose StatementBegin
DO $$
BEGIN
    FOR n IN 0 .. 25 LOOP
        EXECUTE format('CREATE TABLE kept.answer_%s PARTITION OF kept.answer FOR VALUES IN (%s)
            WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false)', n, n);
        EXECUTE format('CREATE TABLE kept.tally_%s PARTITION OF kept.tally FOR VALUES IN (%s)
            WITH (autovacuum_enabled = false, fillfactor = 50)', n, n);
    END LOOP;
END $$;
-- +goose StatementEnd

GRANT SELECT, INSERT ON idempotency_quota, idempotency_account, idempotency_claim TO svc_billing;
GRANT UPDATE (live) ON idempotency_quota, idempotency_account TO svc_billing;
GRANT UPDATE (state, leased_until, sealed, kept_slot), DELETE ON idempotency_claim TO svc_billing;
GRANT SELECT, INSERT, UPDATE (taken_at, expires_at), DELETE ON visitor TO svc_billing;
GRANT SELECT ON kept.hour, kept.answer, kept.tally TO svc_billing;
