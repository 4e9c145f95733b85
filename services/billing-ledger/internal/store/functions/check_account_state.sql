-- An account is in the state of its last change, and open without one. It is frozen exactly while
-- there is a cause for it.
CREATE OR REPLACE FUNCTION check_account_state() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_account uuid := CASE TG_TABLE_NAME WHEN 'account' THEN (to_jsonb(NEW) ->> 'id')::uuid ELSE (to_jsonb(NEW) ->> 'account_id')::uuid END;
    v_last    text := (SELECT c.state FROM account_state_change c WHERE c.account_id = v_account ORDER BY c.id DESC LIMIT 1);
BEGIN
    IF (SELECT a.state FROM account a WHERE a.id = v_account) <> coalesce(v_last, 'open') THEN
        RAISE EXCEPTION 'account % is not in the state of its last change', v_account
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_state_is_kept';
    END IF;
    IF (SELECT a.state = 'frozen' FROM account a WHERE a.id = v_account)
        <> EXISTS (SELECT FROM account_freeze f WHERE f.account_id = v_account AND f.lifted_at IS NULL) THEN
        RAISE EXCEPTION 'account % is not in the state of its causes', v_account
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_freeze_is_told';
    END IF;
    RETURN NULL;
END $$;
