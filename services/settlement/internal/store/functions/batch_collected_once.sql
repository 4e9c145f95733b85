-- The lines and balances of a day are added before the day itself, in one transaction.
CREATE OR REPLACE FUNCTION batch_collected_once() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM batch_day WHERE day IN (SELECT DISTINCT day FROM added)) THEN
        RAISE EXCEPTION 'the day is collected' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
