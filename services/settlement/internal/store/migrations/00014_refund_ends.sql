-- A payment by card whose money its card's owner had before: the books are told, and then the part of the refund ends as
-- reversed. What a refund did on a chain is found by its position.

-- +goose Up
ALTER TABLE collateral_refund_part DROP CONSTRAINT collateral_refund_part_state_check;
ALTER TABLE collateral_refund_part ADD CONSTRAINT collateral_refund_part_state_check CHECK (state IN ('asked', 'requested',
    'opened', 'posted', 'card', 'bank', 'from_bank', 'taken_back', 'reversed', 'done', 'cancelled'));
-- The entry that ends a part by card says that it was paid, or that it was not.
ALTER TABLE collateral_refund_part DROP CONSTRAINT collateral_refund_part_entries;
ALTER TABLE collateral_refund_part ADD CONSTRAINT collateral_refund_part_entries
    CHECK (chain_id IS NOT NULL AND num_nonnulls(asked_entry, paid_entry) = 0
        OR chain_id IS NULL AND (asked_entry IS NULL) = (state IN ('opened', 'cancelled'))
            AND (paid_entry IS NOT NULL) = (state IN ('done', 'reversed')));
INSERT INTO collateral_refund_transition (of, from_state, to_state) VALUES
    ('part', 'bank', 'taken_back'), ('part', 'taken_back', 'reversed');

DROP INDEX collateral_refund_part_due;
CREATE INDEX collateral_refund_part_due ON collateral_refund_part (due_at) WHERE state NOT IN ('done', 'cancelled', 'reversed');
DROP INDEX collateral_refund_part_open;
CREATE INDEX collateral_refund_part_open ON collateral_refund_part (refund_id)
    WHERE state NOT IN ('done', 'cancelled', 'reversed');
CREATE INDEX position_event_refunded ON position_event (chain_id, provider_id, depositor, number) WHERE kind = 'refunded';
