-- The deposits that somebody paid for and that were not undone. A grant is none, nor
-- is what was given back. A card whose owner takes the money back freezes the
-- account, so that entry need not be looked for.
CREATE OR REPLACE VIEW paid_deposit AS
    SELECT p.owner_id AS account_id, p.entry_id FROM posting p
    WHERE p.account_kind = 'l:consumer:available' AND p.amount > 0
        AND p.entry_kind IN ('card_topup', 'deposit_usdc', 'deposit_native')
        AND NOT EXISTS (SELECT FROM entry e WHERE e.reverses = p.entry_id);

GRANT SELECT ON paid_deposit TO svc_billing;
