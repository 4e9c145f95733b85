-- The ends of what goes back by card. A refund of collateral whose money the card's owner
-- has already ends without being paid, and a dispute that was won gives back what its
-- reversal took. What comes back to collateral ends a debt, or is earnings again, where no
-- payment stands behind it any more: ledger.CardBacking.

-- +goose Up
INSERT INTO entry_kind (kind, line) VALUES ('collateral_dispute_won', 23), ('collateral_refund_undone', 26);

INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('collateral_dispute_won', 'a:card_clearing', 'debit', 'usd'),
    ('collateral_dispute_won', 'l:provider:collateral', 'credit', 'usd'),
    ('collateral_dispute_won', 'a:provider_receivable', 'credit', 'usd'),
    ('collateral_dispute_won', 'l:provider:payable', 'credit', 'usd'),
    ('collateral_refund_undone', 'l:provider:collateral_refund_pending', 'debit', 'usd'),
    ('collateral_refund_undone', 'l:provider:collateral', 'credit', 'usd'),
    ('collateral_refund_undone', 'a:provider_receivable', 'credit', 'usd'),
    ('collateral_refund_undone', 'l:provider:payable', 'credit', 'usd'),
    ('slash_appeal_won', 'a:provider_receivable', 'credit', 'usd'),
    ('slash_appeal_won', 'l:provider:payable', 'credit', 'usd');

INSERT INTO posting_rule (entry_kind, account_kind, side, unit)
    SELECT DISTINCT 'reversal', account_kind, CASE side WHEN 'debit' THEN 'credit' ELSE 'debit' END, unit
    FROM posting_rule WHERE entry_kind IN ('collateral_dispute_won', 'collateral_refund_undone', 'slash_appeal_won')
    ON CONFLICT DO NOTHING;

CREATE TABLE card_dispute_won (
    reversal_id text PRIMARY KEY REFERENCES card_reversal,
    entry_id    uuid NOT NULL UNIQUE REFERENCES entry,
    at          timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE card_dispute_won IS 'Disputes whose money the card processor gave back. Their reversals no longer count.';

ALTER TABLE card_change DROP CONSTRAINT card_change_kind_check;
ALTER TABLE card_change ADD CONSTRAINT card_change_kind_check
    CHECK (kind IN ('paid', 'reversed', 'dispute_won', 'refund_ended', 'expired'));
ALTER TABLE card_change DROP CONSTRAINT card_change_posts;
ALTER TABLE card_change ADD CONSTRAINT card_change_posts
    CHECK ((kind IN ('paid', 'reversed', 'dispute_won')) = (entry_id IS NOT NULL));

-- A refund that waits for the bank is not paid once the card's owner has the money.
DROP TRIGGER card_refund_ends_once ON card_refund;
CREATE TRIGGER card_refund_ends_once BEFORE UPDATE ON card_refund
    FOR EACH ROW WHEN (OLD.state <> 'asked' AND (OLD.state, OLD.object_id, OLD.ended_at)
            IS DISTINCT FROM (NEW.state, NEW.object_id, NEW.ended_at)
        AND NOT (OLD.state = 'from_bank' AND NEW.state = 'reversed'))
    EXECUTE FUNCTION refuse_change();
CREATE CONSTRAINT TRIGGER card_refund_is_unpaid AFTER UPDATE ON card_refund
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'reversed' AND OLD.state <> 'reversed')
    EXECUTE FUNCTION check_refund_unpaid();

-- Line 26 ends once, as it was asked for, and as the refund of the card payment ended.
CREATE CONSTRAINT TRIGGER collateral_refund_ends AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('collateral_refund_paid', 'collateral_refund_undone')
        AND NEW.account_kind = 'l:provider:collateral_refund_pending')
    EXECUTE FUNCTION check_refund_end();

DROP TRIGGER card_collateral_is_paid ON posting;
CREATE CONSTRAINT TRIGGER card_collateral_is_paid AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('collateral_card', 'collateral_card_reversed', 'collateral_dispute_won')
        AND NEW.account_kind = 'a:card_clearing')
    EXECUTE FUNCTION check_card_collateral();

ALTER TABLE sandbox_return ADD COLUMN won_at timestamptz;
ALTER TABLE sandbox_return ADD CONSTRAINT sandbox_return_won CHECK (won_at IS NULL OR kind = 'dispute');
CREATE INDEX sandbox_return_won ON sandbox_return (won_at, id) WHERE won_at IS NOT NULL;

GRANT SELECT, INSERT (reversal_id, entry_id) ON card_dispute_won TO svc_billing;
GRANT UPDATE (won_at) ON sandbox_return TO svc_billing;
