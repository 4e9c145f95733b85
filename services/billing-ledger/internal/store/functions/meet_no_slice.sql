-- For changes of what decides about an account's requests: keep_slices_out, for triggers. It locks the
-- wallet first, because whoever opens a slice holds that lock.
CREATE OR REPLACE FUNCTION meet_no_slice() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_account uuid;
BEGIN
    IF TG_TABLE_NAME = 'account' THEN
        v_account := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        v_account := OLD.account_id;
    ELSE
        v_account := NEW.account_id;
    END IF;
    PERFORM FROM wallet WHERE account_id = v_account FOR UPDATE;
    PERFORM keep_slices_out(ARRAY[v_account]);
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
