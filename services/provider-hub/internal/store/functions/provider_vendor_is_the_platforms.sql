-- A vendor of gateway models belongs to no user and has no wallet, because settlement pays it
-- nothing: the ledger owes it its own price. It has a name of its own among vendors.
CREATE OR REPLACE FUNCTION provider_vendor_is_the_platforms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.user_id IS NOT NULL OR NEW.account_id IS NOT NULL OR NEW.owner_address IS NOT NULL
		OR NEW.beneficiary_address IS NOT NULL OR NEW.reference
	THEN
		RAISE EXCEPTION 'a vendor belongs to the platform' USING ERRCODE = 'check_violation';
	END IF;
	NEW.vendor_name := NEW.name;
	RETURN NEW;
END
$$;
