-- A verdict revokes only keys of its provider that are good, and only while it stands: a
-- key that was revoked otherwise is revoked for ever, and no later verdict makes it one
-- that a reversal gives back.
--
-- A revoked key is good again only when the verdict that revoked it is reversed, its
-- removal is not over, and no other verdict of the provider stands.
CREATE OR REPLACE FUNCTION provider_key_returns() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.expelled_by IS NOT NULL AND NEW.revoked_at IS NULL THEN
		RAISE EXCEPTION 'a key that a verdict revoked is revoked' USING ERRCODE = 'check_violation';
	END IF;
	IF NEW.expelled_by IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.expelled_by IS DISTINCT FROM OLD.expelled_by) AND (
		TG_OP = 'INSERT' OR OLD.revoked_at IS NOT NULL
		OR NOT EXISTS (SELECT FROM provider_expulsion e
			WHERE e.verdict_id = NEW.expelled_by AND e.provider_id = NEW.provider_id
				AND e.reversed_at IS NULL AND e.over_at IS NULL)
	) THEN
		RAISE EXCEPTION 'a verdict revokes keys that are good' USING ERRCODE = 'check_violation';
	END IF;
	IF TG_OP = 'UPDATE' AND OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL AND (
		NOT EXISTS (SELECT FROM provider_expulsion e
			WHERE e.verdict_id = OLD.expelled_by AND e.reversed_at IS NOT NULL AND e.over_at IS NULL)
		OR EXISTS (SELECT FROM provider_expulsion e
			WHERE e.provider_id = NEW.provider_id AND e.reversed_at IS NULL AND e.over_at IS NULL)
	) THEN
		RAISE EXCEPTION 'a revoked key stays revoked' USING ERRCODE = 'check_violation';
	END IF;
	-- Whoever revokes it again, the version before too, revokes it for ever.
	IF TG_OP = 'UPDATE' AND OLD.expelled_by = NEW.expelled_by AND OLD.revoked_at = NEW.revoked_at THEN
		NEW.expelled_by := NULL;
	END IF;
	RETURN NEW;
END
$$;
