-- Messages by which accounts ask for enterprise terms.
--
-- A key on account and a check of operator_action wait for what is under way there, and whatever comes meanwhile
-- waits behind the migration. So it waits for a second at most, and tries again. A migration that was interrupted
-- goes on where it ended.

-- +goose NO TRANSACTION
-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    FOR i IN 1 .. 60 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '1s', true);
            CREATE TABLE IF NOT EXISTS enterprise_contact (
                -- It begins with the time.
                id              uuid PRIMARY KEY,
                account_id      uuid NOT NULL REFERENCES account,
                idempotency_key text COLLATE "C" NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
                company         text NOT NULL CHECK (char_length(company) <= 200),
                message         text NOT NULL CHECK (char_length(message) BETWEEN 1 AND 4000),
                created_at      timestamptz NOT NULL DEFAULT now(),
                answered_at     timestamptz,
                -- The operator who answered, as in operator_action.
                answered_by     text COLLATE "C" CHECK (answered_by ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
                CONSTRAINT enterprise_contact_once UNIQUE (account_id, idempotency_key),
                CONSTRAINT enterprise_contact_answered CHECK ((answered_at IS NULL) = (answered_by IS NULL))
            );
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF i = 60 THEN
                RAISE;
            END IF;
        END;
        COMMIT;
        PERFORM pg_sleep(1);
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS enterprise_contact_of_account ON enterprise_contact (account_id, created_at);
CREATE INDEX IF NOT EXISTS enterprise_contact_created ON enterprise_contact (created_at);
CREATE INDEX IF NOT EXISTS enterprise_contact_open ON enterprise_contact (id) WHERE answered_at IS NULL;
CREATE OR REPLACE TRIGGER enterprise_contact_answered_once BEFORE UPDATE ON enterprise_contact
    FOR EACH ROW WHEN (OLD.answered_at IS NOT NULL) EXECUTE FUNCTION refuse_change();
GRANT SELECT, DELETE, INSERT (id, account_id, idempotency_key, company, message), UPDATE (answered_at, answered_by)
    ON enterprise_contact TO svc_billing;

-- The audit log takes one more action. Its rows are checked afterwards, while others write.
-- +goose StatementBegin
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    IF actions LIKE '%answer_contact%' THEN
        RETURN;
    END IF;
    FOR i IN 1 .. 60 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '1s', true);
            ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
            EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
                || replace(actions, '])', ', ''answer_contact''::text])') || ' NOT VALID';
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF i = 60 THEN
                RAISE;
            END IF;
        END;
        COMMIT;
        PERFORM pg_sleep(1);
    END LOOP;
END $$;
-- +goose StatementEnd
ALTER TABLE operator_action VALIDATE CONSTRAINT operator_action_action_check;
