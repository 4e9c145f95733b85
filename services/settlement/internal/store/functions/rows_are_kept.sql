-- For tables whose rows are only ever added.
CREATE OR REPLACE FUNCTION rows_are_kept() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are kept as they are', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
