CREATE OR REPLACE FUNCTION penalty_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'penalties and their history are kept' USING ERRCODE = 'restrict_violation';
END $$;
