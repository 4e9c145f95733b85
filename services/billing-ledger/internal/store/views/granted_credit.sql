-- The accounts that ever had credit which nobody paid for: a bonus, a grant, or
-- something given back at the platform's expense.
CREATE OR REPLACE VIEW granted_credit AS
    SELECT owner_id AS account_id, entry_id FROM posting
    WHERE account_kind = 'l:consumer:available' AND amount > 0
        AND entry_kind IN ('deposit_native', 'goodwill', 'goodwill_refund', 'broken_answer');

GRANT SELECT ON granted_credit TO svc_billing;
