-- A gateway's word that an answer broke off may come when the hub's usage is
-- settled already. Then the consumer is given back what it was charged above
-- what came. That counts as the request's one refund.

-- +goose Up
INSERT INTO entry_kind (kind, line) VALUES ('broken_answer', 21);
INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('broken_answer', 'e:goodwill', 'debit', 'usd'),
    ('broken_answer', 'l:consumer:available', 'credit', 'usd');

DROP INDEX entry_refunds_once;
CREATE UNIQUE INDEX entry_refunds_once ON entry (business_id)
    WHERE kind IN ('request_refund', 'goodwill_refund', 'broken_answer');

-- Whoever may make temporary tables shall not choose what this looks at.
ALTER FUNCTION refuse_unreviewed() SET search_path = billing, pg_temp;

-- The late words are among these.
CREATE INDEX witness_broken ON witness (recorded_at)
    WHERE outcome = 'failed' AND committed_attempt > 0 AND metered_prompt IS NULL;
