-- +goose Up
-- What operators did, each with the name of the operator who acted (operator:alice@id): the changes
-- of providers, which their history has too, and what leaves no line there. Each act is added in
-- the transaction that does it. A warm-up has none: its act is added before the providers are asked.

-- So that a hub that works meanwhile adds no line between the copy and the trigger.
LOCK TABLE provider_status_change IN SHARE ROW EXCLUSIVE MODE;

CREATE TABLE operator_action (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at      timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor   text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
	action  text COLLATE "C" NOT NULL CHECK (char_length(action) BETWEEN 1 AND 32),
	-- A provider, or the model of a warm-up.
	subject text COLLATE "C" NOT NULL CHECK (octet_length(subject) BETWEEN 1 AND 256),
	detail  jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object' AND octet_length(detail::text) <= 4096)
);
COMMENT ON TABLE operator_action IS 'What operators did, with their names. Only ever added.';

INSERT INTO operator_action (at, actor, action, subject, detail)
	SELECT changed_at, changed_by, what, provider_id::text, jsonb_strip_nulls(jsonb_build_object('from', from_status,
		'to', to_status, 'reason', reason, 'cause', cause, 'old_address', old_address, 'new_address', new_address,
		'proposal_id', proposal_id))
	FROM provider_status_change WHERE changed_by ~ '^operator' ORDER BY change_id;

-- The list of all, of one operator, and of one subject, each in its order.
CREATE INDEX operator_action_at ON operator_action (at, id);
CREATE INDEX operator_action_by ON operator_action (actor, at, id);
CREATE INDEX operator_action_of ON operator_action (subject, at, id);

CREATE TRIGGER operator_action_keep BEFORE UPDATE OR DELETE ON operator_action
	FOR EACH ROW EXECUTE FUNCTION operator_action_keep();
CREATE TRIGGER operator_action_keep_all BEFORE TRUNCATE ON operator_action
	FOR EACH STATEMENT EXECUTE FUNCTION operator_action_keep();
CREATE TRIGGER operator_action_entered AFTER INSERT ON provider_status_change
	FOR EACH ROW WHEN (NEW.changed_by ~ '^operator') EXECUTE FUNCTION enter_operator_action();

GRANT SELECT, INSERT (actor, action, subject, detail) ON operator_action TO svc_hub;
