-- A change of a provider by an operator is an act of the operator.
CREATE OR REPLACE FUNCTION enter_operator_action() RETURNS trigger
LANGUAGE plpgsql SET search_path = hub, pg_temp AS $$
BEGIN
	INSERT INTO operator_action (actor, action, subject, detail)
	VALUES (NEW.changed_by, NEW.what, NEW.provider_id::text, jsonb_strip_nulls(jsonb_build_object(
		'from', NEW.from_status, 'to', NEW.to_status, 'reason', NEW.reason, 'cause', NEW.cause,
		'old_address', NEW.old_address, 'new_address', NEW.new_address, 'proposal_id', NEW.proposal_id)));
	RETURN NULL;
END $$;
