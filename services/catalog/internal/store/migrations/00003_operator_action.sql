-- +goose Up
-- What operators did, each with the name of the operator who acted
-- (operator:alice) and in the transaction that did it. What changes nothing leaves
-- no entry. A price version is named in the entry that opened it.
CREATE TABLE operator_action (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    actor    text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    action   text COLLATE "C" NOT NULL CHECK (action IN ('put_model', 'put_model_files')),
    model_id text COLLATE "C" NOT NULL CHECK (octet_length(model_id) BETWEEN 1 AND 128),
    detail   jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object' AND octet_length(detail::text) <= 4096)
);
COMMENT ON TABLE operator_action IS 'What operators did, with their names. Only ever added.';
CREATE INDEX operator_action_model ON operator_action (model_id, id);

CREATE TRIGGER operator_action_keep BEFORE UPDATE OR DELETE ON operator_action
    FOR EACH ROW EXECUTE FUNCTION operator_action_keep();
CREATE TRIGGER operator_action_keep_all BEFORE TRUNCATE ON operator_action
    FOR EACH STATEMENT EXECUTE FUNCTION operator_action_keep();

GRANT SELECT, INSERT (actor, action, model_id, detail) ON operator_action TO svc_catalog;
