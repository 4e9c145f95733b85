-- A page of a provider's settled requests reads the rows of the page, of each day and source, in the order in
-- which they were settled. The sums per day and provider do not need the wide rows either: no vendor accrues.
--
-- One day after the other gets its index, because hubs publish usage all the time. What settles meanwhile waits
-- for the index of its own day, and is not lost: its stream keeps it. A migration that was interrupted goes on
-- where it ended.

-- +goose NO TRANSACTION
-- +goose Up
-- Partitions that replicas make from now on have the index, under a name that PostgreSQL chooses.
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
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid
            WHERE i.indrelid = v_part::regclass AND h.inhparent = 'usage_settlement_of_provider'::regclass);
        EXECUTE format('CREATE INDEX %I ON %s (day, provider_id, source, settled_at) INCLUDE (payout, vendor)',
            v_part || '_of_provider', v_part);
        EXECUTE format('ALTER INDEX usage_settlement_of_provider ATTACH PARTITION %I', v_part || '_of_provider');
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
-- Dropping the index that it replaces waits for each reader of any day, and whatever settles waits behind it. So it
-- waits for a second at most, and tries again.
-- +goose StatementBegin
DO $$
BEGIN
    FOR i IN 1 .. 60 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '1s', true);
            DROP INDEX IF EXISTS usage_settlement_accrual;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF i = 60 THEN
                RAISE;
            END IF;
        END;
        COMMIT;
        PERFORM pg_sleep(1);
    END LOOP;
END $$;
-- +goose StatementEnd
