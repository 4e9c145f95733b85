-- Refunds of card payments that fail after the card processor made them: the bank of the card
-- sends the money back. An attempt that failed is kept, what the books paid for it is owed
-- again, and the next attempt has a key of its own: refund_key.

-- +goose Up
INSERT INTO entry_kind (kind, line) VALUES ('collateral_refund_failed', 26);
INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('collateral_refund_failed', 'a:card_clearing', 'debit', 'usd'),
    ('collateral_refund_failed', 'l:provider:collateral_refund_pending', 'credit', 'usd');
INSERT INTO posting_rule (entry_kind, account_kind, side, unit)
    SELECT 'reversal', account_kind, CASE side WHEN 'debit' THEN 'credit' ELSE 'debit' END, unit
    FROM posting_rule WHERE entry_kind = 'collateral_refund_failed' ON CONFLICT DO NOTHING;

-- The card is asked three times. The attempt after that is the bank's.
ALTER TABLE card_refund ADD COLUMN attempt integer NOT NULL DEFAULT 1
    CONSTRAINT card_refund_attempts CHECK (attempt BETWEEN 1 AND 4 AND (attempt = 1 OR on_card)
        AND (state <> 'by_card' OR attempt <= 3));

CREATE TABLE card_refund_failure (
    -- The card processor's refund.
    object_id text PRIMARY KEY CHECK (octet_length(object_id) BETWEEN 1 AND 255),
    refund_id uuid NOT NULL REFERENCES card_refund,
    attempt   integer NOT NULL,
    -- Null where the books had not paid the attempt.
    entry_id  uuid UNIQUE REFERENCES entry,
    at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT card_refund_failure_once UNIQUE (refund_id, attempt)
);
COMMENT ON TABLE card_refund_failure IS 'Attempts to refund whose money the card did not take.';

DROP TRIGGER card_refund_ends_once ON card_refund;
CREATE TRIGGER card_refund_ends_once BEFORE UPDATE ON card_refund
    FOR EACH ROW WHEN (OLD.state <> 'asked' AND (OLD.state, OLD.object_id, OLD.ended_at)
            IS DISTINCT FROM (NEW.state, NEW.object_id, NEW.ended_at)
        AND NOT (OLD.state = 'from_bank' AND NEW.state = 'reversed')
        AND NOT (OLD.state = 'by_card' AND NEW.state = 'asked' AND NEW.attempt = OLD.attempt + 1))
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER card_refund_tries_again BEFORE UPDATE ON card_refund
    FOR EACH ROW WHEN (NEW.attempt <> OLD.attempt
        AND NOT (NEW.attempt = OLD.attempt + 1 AND NEW.state = 'asked' AND OLD.state IN ('asked', 'by_card')))
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER card_refund_begins_once BEFORE INSERT ON card_refund
    FOR EACH ROW WHEN (NEW.attempt <> 1) EXECUTE FUNCTION refuse_change();

-- A refund is tried again because an attempt failed, and what was paid for that is owed again.
CREATE CONSTRAINT TRIGGER card_refund_failed AFTER UPDATE ON card_refund
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.attempt <> OLD.attempt) EXECUTE FUNCTION check_refund_failure();
CREATE CONSTRAINT TRIGGER card_refund_failed AFTER INSERT ON card_refund_failure
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_refund_failure();
CREATE CONSTRAINT TRIGGER collateral_refund_fails AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind = 'collateral_refund_failed' AND NEW.account_kind = 'l:provider:collateral_refund_pending')
    EXECUTE FUNCTION check_failed_refund();

ALTER TABLE card_change DROP CONSTRAINT card_change_kind_check;
ALTER TABLE card_change ADD CONSTRAINT card_change_kind_check
    CHECK (kind IN ('paid', 'reversed', 'dispute_won', 'refund_ended', 'refund_failed', 'expired'));
ALTER TABLE card_change DROP CONSTRAINT card_change_posts;
ALTER TABLE card_change ADD CONSTRAINT card_change_posts
    CHECK (kind = 'refund_failed' OR (kind IN ('paid', 'reversed', 'dispute_won')) = (entry_id IS NOT NULL));

ALTER TABLE sandbox_return ADD COLUMN failed_at timestamptz;
ALTER TABLE sandbox_return ADD CONSTRAINT sandbox_return_failed CHECK (failed_at IS NULL OR kind = 'refund');
CREATE INDEX sandbox_return_failed_at ON sandbox_return (failed_at, id) WHERE failed_at IS NOT NULL;

GRANT SELECT, INSERT (object_id, refund_id, attempt, entry_id) ON card_refund_failure TO svc_billing;
GRANT UPDATE (attempt) ON card_refund TO svc_billing;
GRANT UPDATE (failed_at) ON sandbox_return TO svc_billing;
