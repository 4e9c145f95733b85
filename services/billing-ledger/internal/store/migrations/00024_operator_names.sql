-- +goose Up
-- What operators did, each with the name of the operator who acted
-- (operator:alice) and in the transaction that did it. What changes nothing leaves
-- no entry. Subject is what was acted on: an account, a key, or a request.
CREATE TABLE operator_action (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    action  text NOT NULL CHECK (action IN ('create_account', 'grant_credit', 'set_limits', 'set_plan', 'set_state',
        'issue_key', 'revoke_key', 'release_earnings')),
    subject uuid NOT NULL,
    detail  jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object' AND octet_length(detail::text) <= 4096)
);
CREATE INDEX operator_action_subject ON operator_action (subject, id);
CREATE TRIGGER operator_action_stays BEFORE UPDATE OR DELETE ON operator_action
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER operator_action_stays_all BEFORE TRUNCATE ON operator_action
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT (actor, action, subject, detail) ON operator_action TO svc_billing;

-- +goose Down
DROP TABLE operator_action;
