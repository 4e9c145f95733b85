-- A change of a provider's status is told to the account of its user. What an operator wrote
-- about it is told, and who the operator is, is not.
CREATE OR REPLACE FUNCTION tell_status() RETURNS trigger
LANGUAGE plpgsql SET search_path = hub, pg_temp AS $$
BEGIN
	INSERT INTO account_event (kind, provider_id, data)
	VALUES ('provider.status_changed', NEW.provider_id, jsonb_build_object('provider_id', NEW.provider_id,
		'from', NEW.from_status, 'to', NEW.to_status, 'what', NEW.what, 'reason', NEW.reason,
		'by', split_part(NEW.changed_by, ':', 1)));
	RETURN NULL;
END $$;
