-- The batches and shares of a day are added before the day is committed, in one transaction.
CREATE OR REPLACE FUNCTION batch_committed_once() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM batch_day WHERE committed_at IS NOT NULL AND day IN (SELECT DISTINCT day FROM added)) THEN
        RAISE EXCEPTION 'the day is committed' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
