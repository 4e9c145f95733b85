-- What was withheld at the close of its month and is posted since: earned, and its part of
-- the pool, which the provider has of what was released and nobody of what was forfeited.
CREATE OR REPLACE VIEW withheld_end AS
    SELECT h.request_id, h.book AS month, h.provider_id, h.payout AS earned, e.id AS entry_id,
        CASE e.kind WHEN 'plan_share' THEN (SELECT coalesce(sum(p.amount), 0)::bigint FROM posting p
                WHERE p.entry_id = e.id AND p.account_kind IN ('l:provider:payable', 'a:provider_receivable'))
            ELSE (SELECT coalesce(sum(p.amount), 0)::bigint FROM entry u JOIN posting p ON p.entry_id = u.id
                WHERE u.kind = 'plan_unclaimed' AND u.business_id = e.business_id AND p.account_kind = 'r:plan')
        END AS paid
    FROM held_earning h JOIN entry e ON e.kind IN ('plan_share', 'plan_forfeit')
        AND e.business_id = h.book || '/' || h.provider_id || '/held/' || h.request_id
    WHERE h.withheld;

GRANT SELECT ON withheld_end TO svc_billing;
