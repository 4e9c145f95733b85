-- A card may not take what was refunded, long after the refund was paid. Then the payment is on its way back again, as
-- the ledger's next attempt, and its refund is being paid again. Nothing keeps the provider from work meanwhile.

-- +goose Up
ALTER TABLE collateral_refund DROP CONSTRAINT collateral_refund_state_check;
ALTER TABLE collateral_refund ADD CONSTRAINT collateral_refund_state_check
    CHECK (state IN ('asked', 'paying', 'paid', 'repaying', 'cancelled'));
ALTER TABLE collateral_refund DROP CONSTRAINT collateral_refund_times;
ALTER TABLE collateral_refund ADD CONSTRAINT collateral_refund_times CHECK (CASE
    WHEN state = 'asked' THEN num_nonnulls(paying_at, ended_at) = 0
    WHEN state IN ('paying', 'repaying') THEN paying_at IS NOT NULL AND ended_at IS NULL
    WHEN state = 'paid' THEN num_nulls(paying_at, ended_at) = 0
    ELSE paying_at IS NULL AND ended_at IS NOT NULL END);
COMMENT ON TABLE collateral_refund IS
    'Refunds of all collateral of a provider. A row that is cancelled never changes, and one that is paid only if a card does not take it.';
DROP INDEX collateral_refund_look;
CREATE INDEX collateral_refund_look ON collateral_refund (look_at) WHERE state IN ('asked', 'paying', 'repaying');

-- The attempt of the ledger that is the last one known here: three of the card, and the bank's.
ALTER TABLE collateral_refund_part ADD COLUMN card_attempt integer NOT NULL DEFAULT 1
    CONSTRAINT collateral_refund_part_card_attempts CHECK (card_attempt BETWEEN 1 AND 4
        AND (chain_id IS NULL OR card_attempt = 1));

INSERT INTO collateral_refund_transition (of, from_state, to_state) VALUES
    ('refund', 'paid', 'repaying'), ('refund', 'repaying', 'paid'), ('part', 'card', 'posted'), ('part', 'done', 'posted');

GRANT UPDATE (card_attempt) ON collateral_refund_part TO svc_settlement;
