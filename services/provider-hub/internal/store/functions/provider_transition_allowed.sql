CREATE OR REPLACE FUNCTION provider_transition_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		IF NEW.status <> 'pending' THEN
			RAISE EXCEPTION 'a provider begins as pending, not %', NEW.status USING ERRCODE = 'check_violation';
		END IF;
	ELSIF NOT EXISTS (SELECT FROM provider_transition t WHERE t.from_status = OLD.status AND t.to_status = NEW.status) THEN
		RAISE EXCEPTION 'a provider does not go from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
	ELSIF NEW.status = 'active' AND NEW.reference THEN
		RAISE EXCEPTION 'a reference is never active' USING ERRCODE = 'check_violation';
	ELSIF NEW.status = 'rejected' AND OLD.status <> 'under_review' AND NOT EXISTS (
		SELECT FROM provider_expulsion e
		WHERE e.provider_id = NEW.provider_id AND e.over_at IS NULL AND e.reversed_at IS NULL
	) THEN
		RAISE EXCEPTION 'a provider goes from % to rejected by a verdict alone', OLD.status USING ERRCODE = 'check_violation';
	ELSIF OLD.status = 'rejected' AND NEW.status = 'pending' AND NOT coalesce((
		SELECT bool_and(e.reversed_at IS NOT NULL) FROM provider_expulsion e
		WHERE e.provider_id = NEW.provider_id AND e.over_at IS NULL
	), false) THEN
		RAISE EXCEPTION 'a provider goes from rejected to pending by reversed verdicts alone' USING ERRCODE = 'check_violation';
	ELSE
		-- Whoever writes facts does so after this, in the same transaction:
		-- provider_active_is_qualified looks at the end of it. A return to pending uses the
		-- benchmark up unless it is written so.
		IF OLD.status = 'active' THEN
			NEW.first_active_at := coalesce(NEW.first_active_at, OLD.active_since, now());
			NEW.active_since := NULL;
			NEW.probation_ends_at := NULL;
		END IF;
		IF OLD.status = 'rejected' THEN
			UPDATE provider_expulsion e SET over_at = statement_timestamp()
			WHERE e.provider_id = NEW.provider_id AND e.over_at IS NULL;
		END IF;
		-- A status that is written without its cause is an operator's word, as the version
		-- before writes it. A cause of settlement's is never ended here.
		IF NEW.status = 'suspended' AND NOT EXISTS (SELECT FROM provider_suspension s
			WHERE s.provider_id = NEW.provider_id AND s.since IS NOT NULL
		) THEN
			INSERT INTO provider_suspension AS s (provider_id, cause, since) VALUES (NEW.provider_id, 'admin', now())
			ON CONFLICT (provider_id, cause) DO UPDATE SET since = excluded.since, reason = '';
		ELSIF OLD.status = 'suspended' AND NEW.status = 'pending' OR OLD.status = 'rejected' AND NEW.status = 'under_review'
		THEN
			UPDATE provider_suspension s SET since = NULL
			WHERE s.provider_id = NEW.provider_id AND s.cause = 'admin' AND s.since IS NOT NULL;
		END IF;
		IF NEW.status = 'active' THEN
			NEW.active_since := coalesce(NEW.active_since, now());
			NEW.first_active_at := coalesce(NEW.first_active_at, now());
		ELSIF NEW.status = 'pending' THEN
			NEW.benchmark_at := NULL;
		END IF;
	END IF;
	RETURN NEW;
END
$$;
