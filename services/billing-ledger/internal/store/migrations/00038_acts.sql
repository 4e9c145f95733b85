-- The list of all acts of operators, of those of one operator, and of those on one subject, each in its order.

-- +goose Up
CREATE INDEX operator_action_at ON operator_action (at, id);
CREATE INDEX operator_action_by ON operator_action (actor, at, id);
CREATE INDEX operator_action_of ON operator_action (subject, at, id);
