-- The check comes after the insertion and reads what is committed then. So a
-- transaction that does not see its day closed has had its number before the
-- closing was committed, and the sealer waits for all such numbers. Under
-- another isolation the check would read an older state.
CREATE OR REPLACE FUNCTION refuse_closed_day() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% is added to under read committed only', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF EXISTS (SELECT FROM closed_day WHERE day >= (now() AT TIME ZONE 'UTC')::date) THEN
        RAISE EXCEPTION 'the day of this transaction is closed'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END $$;
