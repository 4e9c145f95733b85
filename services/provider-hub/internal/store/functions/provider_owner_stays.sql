-- A proven owner stays unless an operator unbinds it, with an entry in the same
-- transaction.
CREATE OR REPLACE FUNCTION provider_owner_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.owner_address IS NULL AND NEW.owner_proven_at IS NULL AND EXISTS (
		SELECT FROM provider_status_change c
		WHERE c.provider_id = NEW.provider_id AND c.what = 'owner_unbound' AND c.old_address = OLD.owner_address
			AND c.changed_by ~ '^operator(:|$)' AND c.xmin = pg_current_xact_id()::xid
	) THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'a proven owner stays' USING ERRCODE = 'check_violation';
END
$$;
