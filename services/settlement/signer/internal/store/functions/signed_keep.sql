-- What was signed stays recorded.
CREATE OR REPLACE FUNCTION signed_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = signer, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are kept', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
