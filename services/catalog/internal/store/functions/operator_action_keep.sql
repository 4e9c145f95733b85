CREATE OR REPLACE FUNCTION operator_action_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'an audit entry is immutable' USING ERRCODE = 'restrict_violation';
END $$;
