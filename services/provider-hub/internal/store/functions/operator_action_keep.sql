-- What operators did is only ever added to.
CREATE OR REPLACE FUNCTION operator_action_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = hub, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'what operators did is kept as it is' USING ERRCODE = 'restrict_violation';
END $$;
