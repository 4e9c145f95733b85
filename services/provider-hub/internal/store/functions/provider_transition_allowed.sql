CREATE OR REPLACE FUNCTION provider_transition_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		IF NEW.status <> 'pending' THEN
			RAISE EXCEPTION 'a provider begins as pending, not %', NEW.status USING ERRCODE = 'check_violation';
		END IF;
	ELSIF NOT EXISTS (SELECT FROM provider_transition t WHERE t.from_status = OLD.status AND t.to_status = NEW.status) THEN
		RAISE EXCEPTION 'a provider does not go from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
	ELSE
		-- The version before writes the status alone: what it says counts as the
		-- operator's word that it is. Whoever writes facts does so after this, in
		-- the same transaction.
		IF OLD.status = 'active' THEN
			NEW.active_since := NULL;
			NEW.probation_ends_at := NULL;
		END IF;
		IF NEW.status = 'active' THEN
			NEW.collateral_at := coalesce(NEW.collateral_at, now());
			NEW.benchmark_at := coalesce(NEW.benchmark_at, now());
			NEW.active_since := coalesce(NEW.active_since, now());
		ELSIF NEW.status = 'pending' THEN
			NEW.benchmark_at := NULL;
		END IF;
	END IF;
	RETURN NEW;
END
$$;
