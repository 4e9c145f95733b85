-- A page of a provider's settled requests reads the rows of the page, of each day and source, in the order in
-- which they were settled. The sums per day and provider do not need the wide rows either: no vendor accrues.
--
-- One day after the other gets its index, because hubs publish usage all the time: what settles meanwhile waits
-- for the index of its own day alone.

-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX IF NOT EXISTS usage_settlement_of_provider ON ONLY usage_settlement
    (day, provider_id, source, settled_at) INCLUDE (payout, vendor);
-- +goose StatementBegin
DO $$
DECLARE
    v_part text;
BEGIN
    FOR v_part IN SELECT inhrelid::regclass::text FROM pg_inherits
        WHERE inhparent = 'usage_settlement'::regclass ORDER BY 1
    LOOP
        EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %s (day, provider_id, source, settled_at) INCLUDE (payout, vendor)',
            v_part || '_of_provider', v_part);
        EXECUTE format('ALTER INDEX usage_settlement_of_provider ATTACH PARTITION %I', v_part || '_of_provider');
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
DROP INDEX IF EXISTS usage_settlement_accrual;
