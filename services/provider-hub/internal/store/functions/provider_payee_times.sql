-- Since when earnings go where they go is the database's to say, whatever path they took
-- there and whatever a hub writes. The address that counts already changes nothing. An
-- account of a user has one consumer account, for good.
CREATE OR REPLACE FUNCTION provider_payee_times() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.account_id IS NOT NULL AND NEW.user_id IS NULL THEN
		RAISE EXCEPTION 'a consumer account comes with its user' USING ERRCODE = 'check_violation';
	END IF;
	IF TG_OP = 'INSERT' THEN
		NEW.beneficiary_since := CASE WHEN NEW.beneficiary_address IS NOT NULL THEN statement_timestamp() END;
		NEW.beneficiary_at_signup := NEW.beneficiary_address IS NOT NULL;
		NEW.owner_bound_at := CASE WHEN NEW.owner_proven_at IS NOT NULL THEN statement_timestamp() END;
		RETURN NEW;
	END IF;
	IF OLD.account_id IS NOT NULL AND NEW.account_id IS DISTINCT FROM OLD.account_id THEN
		RAISE EXCEPTION 'a provider keeps its consumer account' USING ERRCODE = 'check_violation';
	END IF;
	IF NEW.beneficiary_address IS DISTINCT FROM OLD.beneficiary_address THEN
		NEW.beneficiary_since := CASE WHEN NEW.beneficiary_address IS NOT NULL THEN statement_timestamp() END;
		NEW.beneficiary_at_signup := false;
	ELSE
		NEW.beneficiary_since := OLD.beneficiary_since;
		NEW.beneficiary_at_signup := OLD.beneficiary_at_signup;
	END IF;
	IF NEW.owner_proven_at IS NULL THEN
		NEW.owner_bound_at := NULL;
	ELSIF OLD.owner_proven_at IS NULL OR NEW.owner_address IS DISTINCT FROM OLD.owner_address THEN
		NEW.owner_bound_at := statement_timestamp();
	ELSE
		NEW.owner_bound_at := OLD.owner_bound_at;
	END IF;
	RETURN NEW;
END
$$;
