-- Lines 4 and 6: what open holds have moved from available to held.
CREATE OR REPLACE VIEW hold_leg AS
    SELECT h.request_id, leg.account_kind, h.account_id AS owner_id, leg.amount
    FROM hold h
    CROSS JOIN LATERAL (VALUES ('l:consumer:available', -h.amount), ('l:consumer:held', h.amount)) AS leg (account_kind, amount)
    WHERE h.state = 'open' AND h.amount > 0;

GRANT SELECT ON hold_leg TO svc_billing;
