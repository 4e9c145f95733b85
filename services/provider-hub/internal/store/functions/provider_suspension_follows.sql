-- A cause changes under the lock of its provider, so that provider_suspended_by_cause sees
-- what others have committed. A cause of settlement's changes by a newer word alone.
CREATE OR REPLACE FUNCTION provider_suspension_follows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM FROM provider p WHERE p.provider_id = NEW.provider_id FOR NO KEY UPDATE;
	IF TG_OP = 'UPDATE' AND NEW.cause <> 'admin' AND NEW.revision <= OLD.revision THEN
		RAISE EXCEPTION 'a revision only grows' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END
$$;
