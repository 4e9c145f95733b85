-- A user signs in with a password, which belongs to an e-mail, or by an identity. The lock on the
-- user has two transactions that each take one of its last two ways see each other.
CREATE OR REPLACE FUNCTION check_way_in() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_user uuid;
    v_email text;
    v_password text;
BEGIN
    IF TG_TABLE_NAME = 'app_user' THEN
        v_user := NEW.id;
    ELSE
        v_user := OLD.user_id;
    END IF;
    SELECT email, password_hash INTO v_email, v_password FROM app_user WHERE id = v_user FOR NO KEY UPDATE;
    IF v_password IS NOT NULL AND v_email IS NULL THEN
        RAISE EXCEPTION 'the password of user % has no e-mail', v_user
            USING ERRCODE = 'check_violation', CONSTRAINT = 'user_password_has_an_email';
    END IF;
    IF v_password IS NULL AND NOT EXISTS (SELECT FROM user_identity WHERE user_id = v_user) THEN
        RAISE EXCEPTION 'user % has no way to sign in', v_user
            USING ERRCODE = 'check_violation', CONSTRAINT = 'user_has_a_way_in';
    END IF;
    RETURN NULL;
END $$;
