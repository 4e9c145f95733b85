-- A key is forgotten once and never comes back. Its expiry is at most 31 days ahead, as the
-- ledger has it, and an account has at most 8 keys that are not forgotten.
CREATE OR REPLACE FUNCTION house_key_moves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM pg_advisory_xact_lock(hashtext('house_key'), hashtext(NEW.account_id::text));
        IF (SELECT count(*) FROM verifier.house_key k
            WHERE k.account_id = NEW.account_id AND k.forgotten_at IS NULL) >= 8 THEN
            RAISE EXCEPTION 'an account has at most 8 keys'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'house_key_bound';
        ELSIF NEW.sealed IS NULL OR NEW.expires_at <= v_now OR NEW.expires_at > v_now + interval '31 days' THEN
            RAISE EXCEPTION 'a key begins with its text and expires within 31 days' USING ERRCODE = 'check_violation';
        END IF;
        NEW.created_at := v_now;
        RETURN NEW;
    ELSIF (NEW.key_id, NEW.account_id, NEW.created_at, NEW.expires_at) IS DISTINCT FROM
          (OLD.key_id, OLD.account_id, OLD.created_at, OLD.expires_at)
        OR OLD.forgotten_at IS NOT NULL OR NEW.sealed IS NOT NULL OR NEW.forgotten_at > v_now
    THEN
        RAISE EXCEPTION 'a key is forgotten once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
