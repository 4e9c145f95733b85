-- What decides about requests of a key, beside credit, rates and concurrency. plain reports whether
-- nothing else bounds them: neither a plan that is in force or will be, nor terms, nor a budget or
-- cap. A limit of 0 is the default, and -1 is none.
CREATE OR REPLACE VIEW admission_key AS
    SELECT ck.id, ck.account_id, ck.state = 'revoked' AS revoked, coalesce(ck.expires_at <= now(), false) AS expired,
        ck.expires_at, ck.allowed_models, a.state = 'frozen' AS frozen,
        coalesce(l.requests_per_minute, 0) AS per_minute, coalesce(l.concurrent_requests, 0) AS concurrent,
        coalesce(l.priority, false) AS priority,
        num_nonnulls(ck.budget, l.class_per_minute, l.class_concurrent, l.class_tokens, l.day_cap, l.own_day_cap,
                l.month_cap, l.own_month_cap) = 0
            AND coalesce(l.account_per_minute = 0 AND l.discount = 0, true)
            AND NOT EXISTS (SELECT FROM account_plan p WHERE p.account_id = ck.account_id
                AND (p.until_at IS NULL OR p.until_at > now())) AS plain
    FROM consumer_key ck JOIN account a ON a.id = ck.account_id
    LEFT JOIN account_limits l ON l.account_id = ck.account_id;

GRANT SELECT ON admission_key TO svc_billing;
