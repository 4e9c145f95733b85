-- Where earnings go changes with an entry in the same transaction, or not at all. Whoever is
-- not the account's user changes it by a key, which provider_status_change_address asks for.
CREATE OR REPLACE FUNCTION provider_beneficiary_entered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (
		SELECT FROM provider_status_change c
		WHERE c.provider_id = NEW.provider_id AND (c.what IN ('beneficiary', 'beneficiary_unbound')
				OR c.what = 'beneficiary_set' AND c.changed_by = 'user' AND c.new_address IS NOT NULL)
			AND c.new_address IS NOT DISTINCT FROM NEW.beneficiary_address AND c.xmin = pg_current_xact_id()::xid
	) THEN
		RAISE EXCEPTION 'a beneficiary changes with an entry' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END
$$;
