CREATE OR REPLACE FUNCTION refuse_uncleared() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM gone WHERE request_id >= kept_from()) THEN
        RAISE EXCEPTION 'a row of % may not be deleted before its day is cleared', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
