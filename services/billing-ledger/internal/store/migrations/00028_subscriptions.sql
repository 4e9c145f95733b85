-- Plans that are sold by the month: subscriptions, their paid invoices, and what of these went
-- back. Whoever changes them has locked the wallet of the account first, like whoever changes the
-- plan of an account.

-- +goose Up
CREATE TABLE plan_price (
    plan_id text PRIMARY KEY REFERENCES plan,
    cents   bigint NOT NULL CHECK (cents BETWEEN 500 AND 1000000)
);
COMMENT ON TABLE plan_price IS 'The plans that are sold, with their price a month.';
INSERT INTO plan_price VALUES ('pro', 600);

CREATE TABLE subscription (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES account,
    plan_id      text NOT NULL REFERENCES plan,
    price_cents  bigint NOT NULL CHECK (price_cents > 0),
    -- The page on which it began.
    checkout_id  uuid NOT NULL REFERENCES checkout,
    -- The card processor's subscription.
    object_id    text CHECK (octet_length(object_id) BETWEEN 1 AND 255),
    state        text NOT NULL DEFAULT 'incomplete' CHECK (state IN ('incomplete', 'active', 'past_due', 'ended')),
    period_start timestamptz,
    period_end   timestamptz,
    cancel_at_period_end boolean NOT NULL DEFAULT false,
    cause        text CHECK (cause IN ('abandoned', 'cancelled', 'unpaid', 'refunded')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    -- The next look at the clock, and when the card processor is to be told of a cancel or an end.
    due_at       timestamptz DEFAULT now(),
    tell_at      timestamptz,
    CONSTRAINT subscription_price UNIQUE (id, price_cents),
    CONSTRAINT subscription_ends CHECK ((state = 'ended') = (ended_at IS NOT NULL) AND (state = 'ended') = (cause IS NOT NULL)
        AND (state <> 'ended' OR due_at IS NULL)),
    CONSTRAINT subscription_period CHECK ((period_start IS NULL) = (period_end IS NULL) AND period_end > period_start
        AND (state NOT IN ('active', 'past_due') OR period_end IS NOT NULL))
);
CREATE UNIQUE INDEX subscription_one_at_a_time ON subscription (account_id) WHERE state <> 'ended';
CREATE INDEX subscription_of_account ON subscription (account_id, created_at DESC);
CREATE INDEX subscription_of_checkout ON subscription (checkout_id, created_at DESC);
CREATE INDEX subscription_due ON subscription (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX subscription_tells ON subscription (tell_at) WHERE tell_at IS NOT NULL;

-- The same as subscription.State.After.
CREATE TRIGGER subscription_moves BEFORE UPDATE ON subscription
    FOR EACH ROW WHEN (
        (OLD.state, NEW.state) NOT IN (('incomplete', 'incomplete'), ('incomplete', 'active'), ('incomplete', 'ended'),
            ('active', 'active'), ('active', 'past_due'), ('active', 'ended'), ('past_due', 'past_due'),
            ('past_due', 'active'), ('past_due', 'ended'), ('ended', 'ended'))
        OR OLD.object_id IS NOT NULL AND OLD.object_id IS DISTINCT FROM NEW.object_id
        OR OLD.state = 'ended' AND (OLD.cause, OLD.ended_at, OLD.period_end) IS DISTINCT FROM (NEW.cause, NEW.ended_at,
            NEW.period_end))
    EXECUTE FUNCTION refuse_change();

-- An operator's plan has no subscription.
ALTER TABLE account_plan ADD COLUMN subscription_id uuid REFERENCES subscription;

CREATE TABLE plan_invoice (
    -- The card processor's invoice.
    id              text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 255),
    subscription_id uuid NOT NULL,
    account_id      uuid NOT NULL REFERENCES account,
    payment_id      text NOT NULL UNIQUE REFERENCES card_payment,
    cents           bigint NOT NULL,
    period_start    timestamptz NOT NULL,
    period_end      timestamptz NOT NULL,
    paid_at         timestamptz NOT NULL,
    -- The month whose pool it joined.
    month           text NOT NULL CHECK (month ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),
    entry_id        uuid NOT NULL UNIQUE REFERENCES entry,
    recorded_at     timestamptz NOT NULL DEFAULT now(),
    -- Why it is given back: by an operator, because it came too late, or because the consumer had
    -- nothing of it.
    refund_cause    text CHECK (refund_cause IN ('operator', 'late', 'surplus')),
    refund_due_at   timestamptz,
    refund_looks    integer NOT NULL DEFAULT 0,
    CONSTRAINT plan_invoice_has_the_price FOREIGN KEY (subscription_id, cents) REFERENCES subscription (id, price_cents),
    CONSTRAINT plan_invoice_period CHECK (period_end > period_start),
    CONSTRAINT plan_invoice_refund CHECK (refund_due_at IS NULL OR refund_cause IS NOT NULL)
);
CREATE INDEX plan_invoice_of ON plan_invoice (subscription_id, period_end DESC);
CREATE INDEX plan_invoice_of_account ON plan_invoice (account_id, paid_at DESC);
CREATE INDEX plan_invoice_refund_due ON plan_invoice (refund_due_at) WHERE refund_due_at IS NOT NULL;
CREATE TRIGGER plan_invoice_is_given_back_once BEFORE UPDATE ON plan_invoice
    FOR EACH ROW WHEN (OLD.refund_cause IS NOT NULL AND OLD.refund_cause IS DISTINCT FROM NEW.refund_cause)
    EXECUTE FUNCTION refuse_change();

CREATE TABLE plan_return (
    -- The card processor's refund or dispute.
    id         text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 255),
    invoice_id text NOT NULL REFERENCES plan_invoice,
    cents      bigint NOT NULL CHECK (cents > 0),
    -- The month whose pool paid it; null where that was closed, and the platform paid.
    month      text CHECK (month ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),
    entry_id   uuid NOT NULL UNIQUE REFERENCES entry,
    at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX plan_return_of ON plan_return (invoice_id);
CREATE CONSTRAINT TRIGGER plan_returns_within_invoice AFTER INSERT ON plan_return
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_plan_return();

-- +goose StatementBegin
-- The actions of operators, with one more.
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
    EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
        || replace(actions, '])', ', ''refund_plan''::text])');
END $$;
-- +goose StatementEnd

GRANT SELECT ON plan_price, subscription, plan_invoice, plan_return TO svc_billing;
GRANT INSERT (subscription_id) ON account_plan TO svc_billing;
GRANT INSERT (id, account_id, plan_id, price_cents, checkout_id, object_id, state, period_start, period_end, cause,
        ended_at, due_at),
    UPDATE (object_id, state, period_start, period_end, cancel_at_period_end, cause, ended_at, due_at, tell_at)
    ON subscription TO svc_billing;
GRANT INSERT (id, subscription_id, account_id, payment_id, cents, period_start, period_end, paid_at, month, entry_id,
        refund_cause, refund_due_at),
    UPDATE (refund_cause, refund_due_at, refund_looks) ON plan_invoice TO svc_billing;
GRANT INSERT (id, invoice_id, cents, month, entry_id) ON plan_return TO svc_billing;
