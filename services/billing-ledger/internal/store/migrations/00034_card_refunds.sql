-- Refunds of credit that consumers and operators ask for, and entries of credit by card that are
-- those of its payments.

-- +goose Up
-- What had been charged to the account, ever, when a payment of credit came, in nano-USD: what is
-- charged later spends that credit.
ALTER TABLE card_payment ADD COLUMN charged_before bigint;

-- Why an operator gave it back.
ALTER TABLE card_refund ADD COLUMN note text NOT NULL DEFAULT ''
    CONSTRAINT card_refund_note CHECK (char_length(note) <= 200);

CREATE CONSTRAINT TRIGGER card_credit_is_paid AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('card_topup', 'card_reversed', 'card_dispute_won') AND NEW.account_kind = 'a:card_clearing')
    EXECUTE FUNCTION check_card_credit();

-- An account's debts, those that have ended too.
CREATE INDEX card_debt_of_account ON card_debt (account_id, at DESC);

-- Disputes of the sandbox that were lost.
ALTER TABLE sandbox_return ADD COLUMN lost_at timestamptz,
    ADD CONSTRAINT sandbox_return_lost CHECK (lost_at IS NULL OR kind = 'dispute' AND won_at IS NULL);
CREATE INDEX sandbox_return_lost_at ON sandbox_return (lost_at, id) WHERE lost_at IS NOT NULL;

-- +goose StatementBegin
-- The actions of operators, with three more.
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
    EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
        || replace(actions, '])', ', ''refund_topup''::text, ''freeze''::text, ''lift_freeze''::text])');
END $$;
-- +goose StatementEnd

GRANT INSERT (charged_before) ON card_payment TO svc_billing;
GRANT INSERT (note) ON card_refund TO svc_billing;
GRANT UPDATE (lost_at) ON sandbox_return TO svc_billing;
