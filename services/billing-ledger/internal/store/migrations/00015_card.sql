-- Payments by card. A checkout is a page on which somebody may pay; what was paid is a
-- payment, and what goes back of it is a refund that settlement asked for or a reversal.
-- The sums of both never exceed the payment. Beside them stand the events of the card
-- processor, what a person must look at, and the tables of the sandbox, which is a card
-- processor of its own and reads none of the others.

-- +goose Up
CREATE TABLE checkout (
    id          uuid PRIMARY KEY,
    purpose     text NOT NULL CHECK (purpose = 'collateral'),
    provider_id uuid NOT NULL,
    account_id  uuid REFERENCES account,
    cents       bigint NOT NULL CHECK (cents BETWEEN 500 AND 1000000),
    fee_cents   bigint NOT NULL CHECK (fee_cents = 0),
    processor   text NOT NULL CHECK (processor = 'sandbox'),
    livemode    boolean NOT NULL,
    return_url  text NOT NULL CHECK (octet_length(return_url) BETWEEN 1 AND 1024),
    session_id  text UNIQUE CHECK (octet_length(session_id) BETWEEN 1 AND 255),
    url         text CHECK (octet_length(url) BETWEEN 1 AND 2048),
    state       text NOT NULL DEFAULT 'created' CHECK (state IN ('created', 'paid', 'expired')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    paid_at     timestamptz,
    -- The next look at the session; null where none is needed.
    due_at      timestamptz DEFAULT now(),
    CONSTRAINT checkout_sandbox_moves_no_money CHECK (processor <> 'sandbox' OR NOT livemode),
    CONSTRAINT checkout_has_its_page CHECK ((session_id IS NULL) = (url IS NULL)),
    CONSTRAINT checkout_is_paid CHECK ((state = 'paid') = (paid_at IS NOT NULL) AND (state <> 'paid' OR session_id IS NOT NULL))
);

CREATE INDEX checkout_due ON checkout (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX checkout_open ON checkout (provider_id) WHERE state = 'created';
CREATE INDEX checkout_paid ON checkout (provider_id, paid_at) WHERE state = 'paid';

CREATE TRIGGER checkout_begins BEFORE INSERT ON checkout
    FOR EACH ROW WHEN (NEW.state <> 'created' OR NEW.session_id IS NOT NULL) EXECUTE FUNCTION refuse_change();
-- The same as card.State.After, and a session is noted once.
CREATE TRIGGER checkout_moves BEFORE UPDATE ON checkout
    FOR EACH ROW WHEN (
        (OLD.state, NEW.state) NOT IN (('created', 'created'), ('created', 'paid'), ('created', 'expired'),
            ('expired', 'expired'), ('expired', 'paid'), ('paid', 'paid'))
        OR OLD.session_id IS NOT NULL AND (OLD.session_id, OLD.url) IS DISTINCT FROM (NEW.session_id, NEW.url)
        OR OLD.paid_at IS NOT NULL AND OLD.paid_at IS DISTINCT FROM NEW.paid_at)
    EXECUTE FUNCTION refuse_change();

CREATE TABLE card_payment (
    -- The card processor's payment, and its balance transaction.
    id          text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 255),
    checkout_id uuid NOT NULL UNIQUE REFERENCES checkout,
    cents       bigint NOT NULL,
    cost_id     text NOT NULL UNIQUE CHECK (octet_length(cost_id) BETWEEN 1 AND 255),
    cost_cents  bigint NOT NULL,
    entry_id    uuid NOT NULL UNIQUE REFERENCES entry,
    at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT card_payment_cents CHECK (cents > 0),
    CONSTRAINT card_payment_cost CHECK (cost_cents BETWEEN 0 AND cents)
);

-- The right to update is that to lock.
CREATE TRIGGER card_payment_stands BEFORE UPDATE ON card_payment FOR EACH ROW EXECUTE FUNCTION refuse_change();
-- A payment is that of a paid checkout, and has its amount.
CREATE CONSTRAINT TRIGGER card_payment_is_paid AFTER INSERT ON card_payment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_card_payment();

CREATE TABLE card_refund (
    id           uuid PRIMARY KEY,
    payment_id   text NOT NULL REFERENCES card_payment,
    cents        bigint NOT NULL CHECK (cents > 0),
    -- Whether the card is asked: it takes no refund of a payment that is older than 180 days.
    on_card      boolean NOT NULL,
    state        text NOT NULL DEFAULT 'asked' CHECK (state IN ('asked', 'by_card', 'from_bank', 'reversed')),
    -- The card processor's refund.
    object_id    text UNIQUE CHECK (octet_length(object_id) BETWEEN 1 AND 255),
    asked_at     timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    due_at       timestamptz DEFAULT now(),
    looks        integer NOT NULL DEFAULT 0,
    CONSTRAINT card_refund_ends CHECK ((state = 'asked') = (ended_at IS NULL)),
    CONSTRAINT card_refund_by_card CHECK ((state = 'by_card') = (object_id IS NOT NULL) AND (state <> 'by_card' OR on_card))
);

CREATE INDEX card_refund_of ON card_refund (payment_id);
CREATE INDEX card_refund_due ON card_refund (due_at) WHERE due_at IS NOT NULL;

CREATE TRIGGER card_refund_begins BEFORE INSERT ON card_refund
    FOR EACH ROW WHEN (NEW.state <> 'asked') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER card_refund_ends_once BEFORE UPDATE ON card_refund
    FOR EACH ROW WHEN (OLD.state <> 'asked' AND (OLD.state, OLD.object_id, OLD.ended_at)
        IS DISTINCT FROM (NEW.state, NEW.object_id, NEW.ended_at))
    EXECUTE FUNCTION refuse_change();

CREATE TABLE card_reversal (
    -- The card processor's refund or dispute.
    id         text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 255),
    payment_id text NOT NULL REFERENCES card_payment,
    cause      text NOT NULL CHECK (cause IN ('refund', 'dispute')),
    cents      bigint NOT NULL CHECK (cents > 0),
    entry_id   uuid NOT NULL UNIQUE REFERENCES entry,
    at         timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX card_reversal_of ON card_reversal (payment_id);

CREATE CONSTRAINT TRIGGER card_refund_within_payment AFTER INSERT ON card_refund
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_card_returns();
CREATE CONSTRAINT TRIGGER card_reversal_within_payment AFTER INSERT ON card_reversal
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_card_returns();

-- Collateral by card is that of a payment, and is taken back by a reversal.
CREATE CONSTRAINT TRIGGER card_collateral_is_paid AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('collateral_card', 'collateral_card_reversed') AND NEW.account_kind = 'a:card_clearing')
    EXECUTE FUNCTION check_card_collateral();

-- What happened to collateral by card, numbered in the order of commits: who adds has the
-- lock of add_card_change until it commits.
CREATE TABLE card_change (
    number      bigint PRIMARY KEY CHECK (number > 0),
    kind        text NOT NULL CHECK (kind IN ('paid', 'reversed', 'refund_ended', 'expired')),
    checkout_id uuid NOT NULL REFERENCES checkout,
    reference   text NOT NULL CHECK (octet_length(reference) BETWEEN 1 AND 255),
    cents       bigint NOT NULL CHECK (cents > 0),
    entry_id    uuid REFERENCES entry,
    at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT card_change_once UNIQUE (kind, reference),
    CONSTRAINT card_change_posts CHECK ((kind IN ('paid', 'reversed')) = (entry_id IS NOT NULL))
);

CREATE TRIGGER card_change_follows BEFORE INSERT ON card_change
    FOR EACH ROW EXECUTE FUNCTION add_card_change();

CREATE TABLE processor_event (
    id          text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 255),
    sha256      bytea NOT NULL CHECK (octet_length(sha256) = 32),
    -- The object to fetch; both empty for an event that is not looked at.
    object_kind text NOT NULL CHECK (object_kind IN ('', 'session', 'refund', 'dispute')),
    object_id   text NOT NULL CHECK (octet_length(object_id) <= 255),
    received_at timestamptz NOT NULL DEFAULT now(),
    due_at      timestamptz,
    looks       integer NOT NULL DEFAULT 0,
    CONSTRAINT processor_event_names_an_object CHECK ((object_kind = '') = (object_id = ''))
);

CREATE INDEX processor_event_due ON processor_event (due_at) WHERE due_at IS NOT NULL;

-- Up to when all that was made at a card processor was listed.
CREATE TABLE card_listing (
    processor text PRIMARY KEY CHECK (processor = 'sandbox'),
    through   timestamptz NOT NULL DEFAULT now(),
    due_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE card_alarm (
    reason    text NOT NULL CHECK (octet_length(reason) BETWEEN 1 AND 64),
    object    text NOT NULL CHECK (octet_length(object) BETWEEN 1 AND 255),
    detail    text NOT NULL CHECK (octet_length(detail) <= 1024),
    raised_at timestamptz NOT NULL DEFAULT now(),
    closed_at timestamptz,
    closed_by text CHECK (octet_length(closed_by) BETWEEN 1 AND 64),
    PRIMARY KEY (reason, object),
    CONSTRAINT card_alarm_is_closed CHECK ((closed_at IS NULL) = (closed_by IS NULL))
);

CREATE TRIGGER card_alarm_closes_once BEFORE UPDATE ON card_alarm
    FOR EACH ROW WHEN (OLD.closed_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE TABLE sandbox_session (
    id          text PRIMARY KEY CHECK (octet_length(id) BETWEEN 20 AND 255),
    checkout    text NOT NULL UNIQUE,
    purpose     text NOT NULL,
    provider    text NOT NULL,
    account     text NOT NULL,
    description text NOT NULL CHECK (octet_length(description) <= 255),
    return_url  text NOT NULL CHECK (octet_length(return_url) <= 1024),
    cents       bigint NOT NULL CHECK (cents > 0),
    declined    boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    payment_id  text UNIQUE,
    cost_id     text UNIQUE,
    cost_cents  bigint NOT NULL DEFAULT 0 CHECK (cost_cents BETWEEN 0 AND cents),
    paid_at     timestamptz,
    CONSTRAINT sandbox_session_is_paid CHECK (num_nonnulls(payment_id, cost_id, paid_at) IN (0, 3))
);

CREATE INDEX sandbox_session_paid ON sandbox_session (paid_at, id) WHERE paid_at IS NOT NULL;

CREATE TRIGGER sandbox_session_is_paid_once BEFORE UPDATE ON sandbox_session
    FOR EACH ROW WHEN (OLD.paid_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE TABLE sandbox_return (
    id         text PRIMARY KEY CHECK (octet_length(id) BETWEEN 20 AND 255),
    session_id text NOT NULL REFERENCES sandbox_session,
    kind       text NOT NULL CHECK (kind IN ('refund', 'dispute')),
    cents      bigint NOT NULL CHECK (cents > 0),
    -- Who asked for a refund.
    key        text UNIQUE,
    made_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sandbox_return_key CHECK ((kind = 'refund') = (key IS NOT NULL))
);

CREATE INDEX sandbox_return_of ON sandbox_return (session_id);
CREATE INDEX sandbox_return_made ON sandbox_return (made_at, id);
CREATE UNIQUE INDEX sandbox_one_dispute ON sandbox_return (session_id) WHERE kind = 'dispute';

CREATE TABLE sandbox_event (
    id     text PRIMARY KEY,
    type   text NOT NULL,
    object text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz DEFAULT now(),
    tries  integer NOT NULL DEFAULT 0
);

CREATE INDEX sandbox_event_due ON sandbox_event (due_at) WHERE due_at IS NOT NULL;

GRANT SELECT ON checkout, card_payment, card_refund, card_reversal, card_change, processor_event, card_listing, card_alarm,
    sandbox_session, sandbox_return, sandbox_event TO svc_billing;
GRANT INSERT (id, purpose, provider_id, account_id, cents, fee_cents, processor, livemode, return_url, expires_at),
    UPDATE (session_id, url, expires_at, state, paid_at, due_at) ON checkout TO svc_billing;
GRANT INSERT (id, checkout_id, cents, cost_id, cost_cents, entry_id), UPDATE (id) ON card_payment TO svc_billing;
GRANT INSERT (id, payment_id, cents, on_card, due_at), UPDATE (state, object_id, ended_at, due_at, looks) ON card_refund
    TO svc_billing;
GRANT INSERT (id, payment_id, cause, cents, entry_id) ON card_reversal TO svc_billing;
GRANT INSERT (kind, checkout_id, reference, cents, entry_id) ON card_change TO svc_billing;
GRANT INSERT (id, sha256, object_kind, object_id, due_at), UPDATE (due_at, looks) ON processor_event TO svc_billing;
GRANT INSERT (processor), UPDATE (through, due_at) ON card_listing TO svc_billing;
GRANT INSERT (reason, object, detail), UPDATE (closed_at, closed_by) ON card_alarm TO svc_billing;
GRANT INSERT (id, checkout, purpose, provider, account, description, return_url, cents, expires_at),
    UPDATE (declined, payment_id, cost_id, cost_cents, paid_at) ON sandbox_session TO svc_billing;
GRANT INSERT (id, session_id, kind, cents, key) ON sandbox_return TO svc_billing;
GRANT INSERT (id, type, object), UPDATE (due_at, tries) ON sandbox_event TO svc_billing;
