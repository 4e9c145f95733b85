-- What operators did, each with the name of the operator who acted (operator:alice@id) and in the
-- transaction that did it. What changes nothing leaves no entry.

-- +goose Up
CREATE TABLE operator_action (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    action  text COLLATE "C" NOT NULL CHECK (action IN ('set_penalties', 'set_probes', 'approve_verdict', 'refuse_verdict',
        'void_observations', 'start_calibration', 'run_benchmark', 'retry_effect')),
    -- A setting, a verdict, a provider or a model.
    subject text COLLATE "C" NOT NULL CHECK (octet_length(subject) BETWEEN 1 AND 256),
    detail  jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object' AND octet_length(detail::text) <= 4096)
);
COMMENT ON TABLE operator_action IS 'What operators did, with their names. Only ever added.';

-- Earlier words on verdicts name their operators inside sealed evidence alone, which SQL cannot read. So only changes
-- of settings are copied.
INSERT INTO operator_action (at, actor, action, subject, detail)
    SELECT changed_at, actor, 'set_' || name, name, jsonb_build_object('enabled', enabled, 'reason', reason)
    FROM setting_change WHERE actor ~ '^operator' ORDER BY changed_at;

-- The list of all, of one operator, and of one subject, each in its order.
CREATE INDEX operator_action_at ON operator_action (at, id);
CREATE INDEX operator_action_by ON operator_action (actor, at, id);
CREATE INDEX operator_action_of ON operator_action (subject, at, id);

CREATE TRIGGER operator_action_keep BEFORE UPDATE OR DELETE ON operator_action
    FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER operator_action_keep_all BEFORE TRUNCATE ON operator_action
    FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

GRANT SELECT, INSERT (actor, action, subject, detail) ON operator_action TO svc_verifier;
