-- A provider never has less than nothing on an account, by whatever kind of entry. The sum
-- is of a statement that begins after the lock is had. Who only adds need not wait.
CREATE OR REPLACE FUNCTION keep_in_credit() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_left bigint;
BEGIN
    PERFORM lock_earnings(ARRAY[NEW.owner_id]);
    SELECT provider_balance(NEW.account_kind, NEW.owner_id, NEW.book) INTO v_left;
    IF v_left < 0 THEN
        RAISE EXCEPTION 'provider % would have % on % %', NEW.owner_id, v_left, NEW.account_kind, NEW.book
            USING ERRCODE = 'check_violation', CONSTRAINT = 'provider_never_short';
    END IF;
    RETURN NULL;
END $$;
