-- What is remembered of requests that carried an Idempotency-Key, for 24 hours,
-- and of the visits of those without a key of ours, for their window.

-- +goose Up

-- How many claims each key has. Its row is the lock under which all of the key's
-- claims are made and ended.
CREATE TABLE idempotency_quota (
    key_id uuid PRIMARY KEY REFERENCES consumer_key (id),
    live   integer NOT NULL CHECK (live BETWEEN 0 AND 10000)
);

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
    -- 1 MiB of answer, and what it takes to seal it.
    sealed         bytea CHECK (octet_length(sealed) BETWEEN 1 AND 1052672),
    PRIMARY KEY (key_id, token_sha256),
    CONSTRAINT idempotency_claim_answer CHECK ((state = 'answered') = (sealed IS NOT NULL))
);

CREATE INDEX idempotency_claim_expires ON idempotency_claim (expires_at);

-- What is sealed cannot be compressed.
ALTER TABLE idempotency_claim ALTER COLUMN sealed SET STORAGE EXTERNAL;

-- +goose StatementBegin
CREATE FUNCTION count_claims() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE idempotency_quota q SET live = q.live + c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
    ELSE
        UPDATE idempotency_quota q SET live = q.live - c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER idempotency_claim_comes AFTER INSERT ON idempotency_claim
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_claims();
CREATE TRIGGER idempotency_claim_goes AFTER DELETE ON idempotency_claim
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_claims();

-- What was answered stands until it is forgotten.
CREATE TRIGGER idempotency_claim_ends_once BEFORE UPDATE ON idempotency_claim
    FOR EACH ROW WHEN (OLD.state <> 'running') EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT ON idempotency_quota, idempotency_claim TO svc_billing;
GRANT UPDATE (live) ON idempotency_quota TO svc_billing;
GRANT UPDATE (state, leased_until, sealed) ON idempotency_claim TO svc_billing;
GRANT DELETE ON idempotency_claim TO svc_billing;

-- Visitors without a key of ours, by a keyed hash of their address.
CREATE TABLE visitor (
    address    bytea PRIMARY KEY CHECK (octet_length(address) = 32),
    -- When each visit that still counts was made.
    taken_at   timestamptz[] NOT NULL CHECK (cardinality(taken_at) <= 1000),
    expires_at timestamptz NOT NULL
);

CREATE INDEX visitor_expires ON visitor (expires_at);

GRANT SELECT, INSERT, UPDATE (taken_at, expires_at), DELETE ON visitor TO svc_billing;
