-- Credit and plans by card. A checkout is of a provider, which pays collateral, or of a consumer.
-- Credit has a fee beside it. The payments of a plan are those of its invoices.

-- +goose Up
ALTER TABLE checkout DROP CONSTRAINT checkout_purpose_check, DROP CONSTRAINT checkout_fee_cents_check,
    DROP CONSTRAINT checkout_processor_check, ALTER COLUMN provider_id DROP NOT NULL;
ALTER TABLE checkout
    ADD COLUMN plan_id text REFERENCES plan,
    ADD CONSTRAINT checkout_purpose_check CHECK (purpose IN ('collateral', 'topup', 'plan')),
    ADD CONSTRAINT checkout_processor_check CHECK (processor IN ('sandbox', 'stripe')),
    ADD CONSTRAINT checkout_fee CHECK (fee_cents BETWEEN 0 AND cents + 20000 AND (purpose = 'topup' OR fee_cents = 0)),
    ADD CONSTRAINT checkout_is_of_one CHECK (CASE purpose WHEN 'collateral' THEN provider_id IS NOT NULL
        ELSE provider_id IS NULL AND account_id IS NOT NULL END),
    ADD CONSTRAINT checkout_plan CHECK ((purpose = 'plan') = (plan_id IS NOT NULL));
CREATE INDEX checkout_of_account ON checkout (account_id, created_at DESC, id DESC) WHERE purpose <> 'collateral';

ALTER TABLE card_listing DROP CONSTRAINT card_listing_processor_check;
ALTER TABLE card_listing ADD CONSTRAINT card_listing_processor_check CHECK (processor IN ('sandbox', 'stripe'));

ALTER TABLE processor_event DROP CONSTRAINT processor_event_object_kind_check;
ALTER TABLE processor_event
    ADD COLUMN processor text NOT NULL DEFAULT 'sandbox' CHECK (processor IN ('sandbox', 'stripe')),
    ADD CONSTRAINT processor_event_object_kind_check
        CHECK (object_kind IN ('', 'session', 'refund', 'dispute', 'invoice', 'subscription'));

-- A checkout has one payment, or one for each paid invoice of its plan.
ALTER TABLE card_payment DROP CONSTRAINT card_payment_checkout_id_key;
ALTER TABLE card_payment
    -- Receipts have these numbers.
    ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    -- The card processor's invoice of a period of a plan.
    ADD COLUMN invoice_id text UNIQUE CHECK (octet_length(invoice_id) BETWEEN 1 AND 255),
    -- A keyed digest of the card: the same for all payments with it.
    ADD COLUMN card_fingerprint bytea CHECK (octet_length(card_fingerprint) = 32);
CREATE UNIQUE INDEX card_payment_once ON card_payment (checkout_id) WHERE invoice_id IS NULL;
CREATE INDEX card_payment_of ON card_payment (checkout_id);
CREATE INDEX card_payment_card ON card_payment (card_fingerprint) WHERE card_fingerprint IS NOT NULL;

-- An account is frozen while there is a cause for it. account.state says the same in one word, for
-- admission.
CREATE TABLE account_freeze (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account,
    cause      text NOT NULL CHECK (cause IN ('operator', 'dispute', 'debt', 'loss')),
    -- What it is about, such as the card processor's dispute; empty for an operator's.
    ref        text NOT NULL CHECK (octet_length(ref) <= 255),
    at         timestamptz NOT NULL DEFAULT now(),
    lifted_at  timestamptz
);
CREATE UNIQUE INDEX account_freeze_once ON account_freeze (account_id, cause, ref) WHERE lifted_at IS NULL;
CREATE TRIGGER account_freeze_is_lifted_once BEFORE UPDATE ON account_freeze
    FOR EACH ROW WHEN (OLD.lifted_at IS NOT NULL) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER account_freeze_stays BEFORE DELETE ON account_freeze FOR EACH ROW EXECUTE FUNCTION refuse_change();
INSERT INTO account_freeze (account_id, cause, ref) SELECT id, 'operator', '' FROM account WHERE state = 'frozen';
CREATE CONSTRAINT TRIGGER account_freeze_is_told AFTER INSERT OR UPDATE ON account_freeze
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_account_state();

-- What a consumer owes because a card payment went back after its credit was spent. The debt of a
-- reversal is paid from what no hold sets aside, is lost after 90 days, and ends if the reversal
-- is undone.
CREATE TABLE card_debt (
    reversal_id text PRIMARY KEY REFERENCES card_reversal,
    account_id  uuid NOT NULL REFERENCES account,
    -- In nano-USD, as all of these.
    owed        bigint NOT NULL CHECK (owed > 0),
    paid        bigint NOT NULL DEFAULT 0 CHECK (paid >= 0),
    lost        bigint NOT NULL DEFAULT 0 CHECK (lost >= 0),
    undone      bigint NOT NULL DEFAULT 0 CHECK (undone >= 0),
    payments    integer NOT NULL DEFAULT 0,
    at          timestamptz NOT NULL DEFAULT now(),
    -- The next payment; null once nothing is left.
    due_at      timestamptz DEFAULT now(),
    CONSTRAINT card_debt_ends CHECK (paid + lost + undone <= owed AND (paid + lost + undone = owed) = (due_at IS NULL))
);
CREATE INDEX card_debt_due ON card_debt (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX card_debt_of ON card_debt (account_id) WHERE due_at IS NOT NULL;
CREATE TRIGGER card_debt_stands BEFORE UPDATE ON card_debt FOR EACH ROW
    WHEN ((OLD.reversal_id, OLD.account_id, OLD.owed, OLD.at) IS DISTINCT FROM (NEW.reversal_id, NEW.account_id, NEW.owed, NEW.at)
        OR NEW.paid < OLD.paid OR NEW.payments < OLD.payments) EXECUTE FUNCTION refuse_change();

-- A refund of credit takes the credit when it is asked for.
ALTER TABLE card_refund ADD COLUMN entry_id uuid UNIQUE REFERENCES entry,
    ADD COLUMN asked_by text NOT NULL DEFAULT 'settlement' CHECK (octet_length(asked_by) BETWEEN 1 AND 80);

-- Plans of the sandbox. Each payment of a plan is a paid session of the sandbox too.
ALTER TABLE sandbox_session ADD COLUMN plan text NOT NULL DEFAULT '',
    ADD COLUMN card text NOT NULL DEFAULT '';
CREATE TABLE sandbox_subscription (
    id          text PRIMARY KEY CHECK (octet_length(id) BETWEEN 20 AND 255),
    -- The page on which it began.
    session_id  text NOT NULL UNIQUE REFERENCES sandbox_session,
    period_end  timestamptz NOT NULL,
    ends_at_period_end boolean NOT NULL DEFAULT false,
    -- Whether the card is declined from now on.
    declines    boolean NOT NULL DEFAULT false,
    ended_at    timestamptz,
    -- The next look, for a new period or another try of the card.
    due_at      timestamptz,
    CONSTRAINT sandbox_subscription_ends CHECK ((ended_at IS NULL) = (due_at IS NOT NULL))
);
CREATE INDEX sandbox_subscription_due ON sandbox_subscription (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE sandbox_invoice (
    id              text PRIMARY KEY CHECK (octet_length(id) BETWEEN 20 AND 255),
    subscription_id text NOT NULL REFERENCES sandbox_subscription,
    number          integer NOT NULL CHECK (number > 0),
    period_start    timestamptz NOT NULL,
    period_end      timestamptz NOT NULL CHECK (period_end > period_start),
    tries           integer NOT NULL DEFAULT 0,
    -- The session that paid it.
    session_id      text UNIQUE REFERENCES sandbox_session,
    void_at         timestamptz,
    made_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sandbox_invoice_number UNIQUE (subscription_id, number),
    CONSTRAINT sandbox_invoice_ends CHECK (num_nonnulls(session_id, void_at) <= 1)
);

GRANT SELECT, INSERT (account_id, cause, ref), UPDATE (lifted_at) ON account_freeze TO svc_billing;
GRANT SELECT, INSERT (reversal_id, account_id, owed), UPDATE (paid, lost, undone, payments, due_at) ON card_debt TO svc_billing;
GRANT INSERT (entry_id, asked_by) ON card_refund TO svc_billing;
GRANT INSERT (plan_id) ON checkout TO svc_billing;
GRANT INSERT (processor) ON processor_event TO svc_billing;
GRANT INSERT (invoice_id, card_fingerprint) ON card_payment TO svc_billing;
GRANT INSERT (plan, payment_id, cost_id, cost_cents, paid_at, card), UPDATE (card) ON sandbox_session TO svc_billing;
GRANT SELECT, INSERT (id, session_id, period_end, due_at), UPDATE (period_end, ends_at_period_end, declines, ended_at, due_at)
    ON sandbox_subscription TO svc_billing;
GRANT SELECT, INSERT (id, subscription_id, number, period_start, period_end), UPDATE (tries, session_id, void_at)
    ON sandbox_invoice TO svc_billing;
