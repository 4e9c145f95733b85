-- What operators find accounts by, and one more act of theirs.

-- +goose Up
-- The newest accounts that are frozen.
CREATE INDEX account_frozen ON account (id) WHERE state = 'frozen';
-- The characters of a key's text that are shown.
CREATE INDEX consumer_key_prefix ON consumer_key (prefix);
CREATE INDEX consumer_key_old_prefix ON consumer_key (old_prefix) WHERE old_prefix IS NOT NULL;

-- +goose StatementBegin
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
    EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
        || replace(actions, '])', ', ''refund_request''::text])');
END $$;
-- +goose StatementEnd
