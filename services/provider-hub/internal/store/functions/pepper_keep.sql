-- What is known of a pepper stays, and so does the text of a key.
CREATE OR REPLACE FUNCTION pepper_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = hub, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'this of % stays as it is', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
