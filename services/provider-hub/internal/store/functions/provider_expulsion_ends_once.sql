-- A verdict that is over stays as it is, and a reversal stays.
CREATE OR REPLACE FUNCTION provider_expulsion_ends_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.over_at IS NOT NULL OR OLD.reversed_at IS NOT NULL AND NEW.reversed_at IS DISTINCT FROM OLD.reversed_at THEN
		RAISE EXCEPTION 'a verdict ends once' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END
$$;
