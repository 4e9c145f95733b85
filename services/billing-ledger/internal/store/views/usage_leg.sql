-- Settled requests as the postings they stand for, by their line in the table
-- of postings. Lines 9 and 10 move nothing. A covered request belongs to the
-- month of its own day, whenever it settles. A vendor is owed its price whatever
-- pays for the request: no pool of plans bears it.
CREATE OR REPLACE VIEW usage_leg AS
    SELECT s.day, s.request_id, s.settled_at AS at, leg.line, leg.account_kind, leg.owner_id, leg.book, leg.amount
    FROM usage_settlement s
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN s.vendor THEN 8 WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'l:consumer:available', s.account_id, '', CASE s.source WHEN 'payg' THEN -s.charged END),
        (CASE WHEN s.vendor THEN 8 ELSE 7 END, 'e:shortfall', NULL, '', CASE WHEN s.source = 'payg' THEN -s.shortfall WHEN s.source = 'plan' AND s.vendor THEN -s.payout END),
        (CASE WHEN s.vendor THEN 8 WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'e:discount', NULL, '', CASE s.source WHEN 'payg' THEN -s.discount END),
        (CASE WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'l:provider:accrued', s.provider_id, '', CASE WHEN s.source = 'payg' AND NOT s.vendor THEN s.payout END),
        (8, 'l:vendor:payable', s.provider_id, '', CASE WHEN s.source IN ('payg', 'plan') AND s.vendor THEN s.payout END),
        (CASE WHEN s.vendor THEN 8 WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'r:usage_margin', NULL, '', CASE s.source WHEN 'payg' THEN s.fee END),
        (12, 'x:plan_accrual', NULL, to_char(s.day, 'YYYY-MM'), CASE WHEN s.source = 'plan' AND NOT s.vendor THEN -s.payout END),
        (12, 'l:provider:plan_held', s.provider_id, to_char(s.day, 'YYYY-MM'), CASE WHEN s.source = 'plan' AND NOT s.vendor THEN s.payout END)
    ) AS leg (line, account_kind, owner_id, book, amount)
    WHERE leg.amount <> 0;

GRANT SELECT ON usage_leg TO svc_billing;
