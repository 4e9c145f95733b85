-- Which accounts and providers have one owner, and how that is known: the user of both, or
-- evidence that both bear (see package kin). The rule of two marks is the less sure of their
-- causes. A pair may have several rows. Settling asks for the pairs of one account at a time, so
-- each part finds them by account_id in an index.
--
-- A source of deposits that more than 8 accounts share is taken for an exchange's and makes no kin,
-- unless its wallet has signed for somebody. Where one of the two marks is no deposit, the address
-- is that of the account or the provider itself. The bound does not apply then, because an owner
-- could cut the tie to its own address with nine accounts. The two lookups of wallet marks are not
-- written as EXISTS, because PostgreSQL could plan an EXISTS as a read of all wallet marks.
CREATE OR REPLACE VIEW kin AS
    SELECT account_id, provider_id, rule FROM common_owner
    UNION ALL
    SELECT a.account_id, p.provider_id, CASE
            WHEN a.cause = 'card' THEN 'card'
            WHEN 'deposit_source' IN (a.cause, p.cause) THEN 'deposit_source'
            WHEN p.cause = 'payout_address' THEN 'payout_address'
            ELSE 'wallet' END AS rule
    FROM account_mark a JOIN provider_mark p ON p.evidence = a.evidence
    WHERE a.cause <> 'deposit_source' OR p.cause <> 'deposit_source'
        OR (SELECT count(*) FROM (SELECT FROM account_mark s
            WHERE s.evidence = a.evidence AND s.cause = 'deposit_source' LIMIT 9) AS sharers) <= 8
        OR (SELECT true FROM account_mark w WHERE w.evidence = a.evidence AND w.cause = 'wallet' LIMIT 1) IS NOT NULL
        OR (SELECT true FROM provider_mark w WHERE w.evidence = a.evidence AND w.cause = 'wallet' LIMIT 1) IS NOT NULL;

GRANT SELECT ON kin TO svc_billing;
