-- What is known of requests of which something was served by a provider that
-- can be paid. The gateway's report is its last word; a renewal stands in for
-- it. Where neither says what was served, a receipt does that contradicts
-- neither; of several attempts it is the last one's, because a later one is
-- made only when nothing was served by those before. Where a gateway does, the
-- receipt of the same attempt and provider stands beside it.
--
-- Vectors and transcripts have no tokens that are counted: that their hub finished
-- them is what tells that they were served. And where no gateway says that something
-- was relayed, a receipt of a void attempt is no evidence, nor one of an attempt
-- before a void one, which would not have been made had that been served.
CREATE OR REPLACE VIEW evidence AS
    SELECT w.request_id, w.committed_attempt, coalesce(w.hub_id, '') AS hub_id, w.provider_id, w.relayed_tokens, w.relayed_bytes,
        w.metered_prompt, w.metered_completion, w.route_mode, w.requested_provider, w.fallback_reason, w.first_content_ms,
        w.recorded_at AS reported_at,
        'gateway'::text AS source, coalesce(r.epoch, 0) AS epoch, r.sent_tokens AS work_receipt_tokens, r.sent_bytes AS work_receipt_bytes
    FROM request_report w
    LEFT JOIN work_receipt r ON r.request_id = w.request_id AND r.attempt = w.committed_attempt AND r.provider_id = w.provider_id
    WHERE w.committed_attempt > 0 AND w.provider_id IS NOT NULL AND w.relayed_bytes > 0
        AND (w.relayed_tokens > 0 OR w.metered_prompt > 0)
    UNION ALL
    SELECT n.request_id, n.committed_attempt, n.hub_id, n.provider_id, n.relayed_tokens, n.relayed_bytes,
        NULL, NULL, '', '', '', 0, n.renewed_at,
        'gateway', coalesce(r.epoch, 0), r.sent_tokens, r.sent_bytes
    FROM renewal n
    LEFT JOIN work_receipt r ON r.request_id = n.request_id AND r.attempt = n.committed_attempt AND r.provider_id = n.provider_id
    WHERE n.committed_attempt > 0 AND n.relayed_tokens > 0 AND n.relayed_bytes > 0
        AND NOT EXISTS (SELECT FROM request_report w WHERE w.request_id = n.request_id)
    UNION ALL
    SELECT r.request_id, r.attempt, r.hub_id, r.provider_id,
        -- A gateway that relayed, and did not say whose answer.
        least(r.sent_tokens, w.relayed_tokens), least(r.sent_bytes, w.relayed_bytes),
        NULL, NULL, coalesce(w.route_mode, ''), coalesce(w.requested_provider, ''), coalesce(w.fallback_reason, ''),
        coalesce(w.first_content_ms, 0), r.received_at,
        'receipt', r.epoch, r.sent_tokens, r.sent_bytes
    FROM work_receipt r
    LEFT JOIN request_report w ON w.request_id = r.request_id
    LEFT JOIN renewal n ON n.request_id = r.request_id
    WHERE CASE
        WHEN w.request_id IS NOT NULL THEN
            w.provider_id IS NULL AND w.committed_attempt = r.attempt AND w.relayed_tokens > 0 AND w.relayed_bytes > 0
        WHEN EXISTS (SELECT FROM void_attempt v WHERE v.request_id = r.request_id AND v.attempt >= r.attempt) THEN
            false
        WHEN n.committed_attempt > 0 THEN
            n.committed_attempt = r.attempt AND n.provider_id = r.provider_id AND (n.relayed_tokens = 0 OR n.relayed_bytes = 0)
        ELSE NOT EXISTS (SELECT FROM work_receipt later WHERE later.request_id = r.request_id AND later.attempt > r.attempt)
    END;

GRANT SELECT ON evidence TO svc_billing;
