-- Account webhooks: the endpoints of accounts, what happened to accounts, and what was sent.

-- +goose Up
-- Below low_at an account is told so once; low says that it was. The trigger of the balance
-- has it in the transaction that moves the balance, without another read.
ALTER TABLE wallet
    ADD COLUMN low_at bigint CONSTRAINT wallet_low_bounds CHECK (low_at BETWEEN 1 AND 1000000000000000000),
    ADD COLUMN low    boolean NOT NULL DEFAULT false;
CREATE TRIGGER wallet_low BEFORE UPDATE OF posted ON wallet FOR EACH ROW
    WHEN (NEW.low_at IS NOT NULL
        AND CASE WHEN NEW.low THEN NEW.posted >= NEW.low_at + NEW.low_at / 10 ELSE NEW.posted < NEW.low_at END)
    EXECUTE FUNCTION tell_low_balance();
CREATE TRIGGER wallet_low_set BEFORE UPDATE OF low_at ON wallet FOR EACH ROW EXECUTE FUNCTION set_low_balance();

-- What accounts are told. No account is named by a key, because the row is written while the
-- wallet is locked.
CREATE TABLE account_event (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id uuid NOT NULL,
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('account.balance_low', 'payout.confirmed',
        'provider.status_changed', 'penalty.created', 'webhook.test')),
    data       jsonb NOT NULL CONSTRAINT account_event_data CHECK (jsonb_typeof(data) = 'object'
        AND octet_length(data::text) <= 16384),
    -- When it happened, and when it was stored.
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    stored_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Whether its deliveries are still to be made.
    pending    boolean NOT NULL DEFAULT true
);
CREATE INDEX account_event_pending ON account_event (stored_at) WHERE pending;
CREATE INDEX account_event_stored ON account_event (stored_at);

CREATE TABLE webhook (
    id             uuid PRIMARY KEY,
    account_id     uuid NOT NULL REFERENCES account,
    url            text NOT NULL CONSTRAINT webhook_url CHECK (octet_length(url) BETWEEN 8 AND 2048 AND url ~ '^https?://'),
    description    text NOT NULL CHECK (char_length(description) <= 200),
    kinds          text[] COLLATE "C" NOT NULL CONSTRAINT webhook_kinds CHECK (cardinality(kinds) BETWEEN 1 AND 4
        AND kinds <@ ARRAY['account.balance_low', 'payout.confirmed', 'provider.status_changed', 'penalty.created']),
    -- Sealed; see package webhook. The one before signs until then, too.
    secret         bytea NOT NULL CHECK (octet_length(secret) BETWEEN 1 AND 256),
    previous       bytea CHECK (octet_length(previous) BETWEEN 1 AND 256),
    previous_until timestamptz,
    -- Why it is not enabled; empty while it is.
    note           text COLLATE "C" NOT NULL DEFAULT '' CHECK (note IN ('', 'by_owner', 'gone', 'failing')),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    tested_at      timestamptz,
    -- Tries in a row that failed, since when, and until when no other is made.
    failures       integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since  timestamptz,
    paused_until   timestamptz,
    dropped        integer NOT NULL DEFAULT 0 CHECK (dropped >= 0),
    -- When its next delivery is due; null for none. busy_until is the lease of whoever sends.
    next_at        timestamptz,
    busy_until     timestamptz,
    served_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT webhook_failing CHECK ((failures > 0) = (failing_since IS NOT NULL)),
    CONSTRAINT webhook_overlap CHECK ((previous IS NULL) = (previous_until IS NULL))
);
CREATE INDEX webhook_of_account ON webhook (account_id, created_at);
CREATE INDEX webhook_due ON webhook (served_at) WHERE next_at IS NOT NULL;
CREATE TRIGGER webhook_bound BEFORE INSERT ON webhook FOR EACH ROW EXECUTE FUNCTION bound_webhooks();

CREATE TABLE webhook_delivery (
    webhook_id uuid NOT NULL REFERENCES webhook ON DELETE CASCADE,
    event_id   uuid NOT NULL REFERENCES account_event ON DELETE CASCADE,
    state      text COLLATE "C" NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed', 'dropped')),
    attempt    integer NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 5),
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_at   timestamptz,
    tried_at   timestamptz,
    due_at     timestamptz DEFAULT clock_timestamp(),
    status     integer NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 999),
    problem    text COLLATE "C" NOT NULL DEFAULT ''
        CHECK (problem IN ('', 'status', 'address', 'tls', 'timeout', 'connection')),
    PRIMARY KEY (webhook_id, event_id),
    CONSTRAINT webhook_delivery_due CHECK ((state = 'waiting') = (due_at IS NOT NULL)),
    CONSTRAINT webhook_delivery_tried CHECK ((attempt = 0) = (first_at IS NULL) AND (attempt = 0) = (tried_at IS NULL))
);
CREATE INDEX webhook_delivery_waits ON webhook_delivery (webhook_id, due_at) WHERE state = 'waiting';
CREATE INDEX webhook_delivery_made ON webhook_delivery (webhook_id, made_at DESC, event_id DESC);
CREATE INDEX webhook_delivery_of_event ON webhook_delivery (event_id);
-- What was delivered or given up is not sent again.
CREATE TRIGGER webhook_delivery_ends_once BEFORE UPDATE ON webhook_delivery
    FOR EACH ROW WHEN (OLD.state <> 'waiting' OR NEW.attempt < OLD.attempt) EXECUTE FUNCTION refuse_change();

GRANT UPDATE (low_at) ON wallet TO svc_billing;
GRANT SELECT, INSERT (id, account_id, kind, data, at), UPDATE (pending), DELETE ON account_event TO svc_billing;
GRANT SELECT, INSERT (id, account_id, url, description, kinds, secret), DELETE,
    UPDATE (url, description, kinds, secret, previous, previous_until, note, tested_at, failures, failing_since, paused_until,
        dropped, next_at, busy_until, served_at) ON webhook TO svc_billing;
GRANT SELECT, INSERT (webhook_id, event_id), UPDATE (state, attempt, first_at, tried_at, due_at, status, problem), DELETE
    ON webhook_delivery TO svc_billing;
