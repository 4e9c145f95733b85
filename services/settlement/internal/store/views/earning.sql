CREATE OR REPLACE VIEW earning AS
SELECT l.day, l.request_id, coalesce(r.settled, true) AS settled,
       coalesce(r.evidence_source, c.evidence_source, l.evidence_source) AS evidence_source,
       coalesce(r.provider_id, c.provider_id, l.provider_id) AS provider_id,
       coalesce(r.attempt, c.attempt, l.attempt) AS attempt,
       coalesce(r.model_id, c.model_id, l.model_id) AS model_id,
       coalesce(r.price_version_id, c.price_version_id, l.price_version_id) AS price_version_id,
       coalesce(r.prompt_tokens, c.prompt_tokens, l.prompt_tokens) AS prompt_tokens,
       coalesce(r.completion_tokens, c.completion_tokens, l.completion_tokens) AS completion_tokens,
       coalesce(r.payout_nano_usd, c.payout_nano_usd, l.payout_nano_usd) AS payout_nano_usd,
       coalesce(r.unit, c.unit, l.unit) AS unit,
       coalesce(r.ruling, 0) AS rulings, r.ruling IS NOT NULL OR c.day IS NOT NULL AS overruled, l.recorded_at
FROM earning_line l
LEFT JOIN earning_correction c ON c.day = l.day AND c.request_id = l.request_id
LEFT JOIN LATERAL (
    SELECT * FROM earning_ruling r WHERE r.day = l.day AND r.request_id = l.request_id ORDER BY r.ruling DESC LIMIT 1
) r ON true;
COMMENT ON VIEW earning IS 'What counts of each line. Of one that is not settled, nothing does.';

GRANT SELECT ON earning TO svc_settlement;
