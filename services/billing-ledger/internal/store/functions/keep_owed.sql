-- Nobody pays more of a debt than is owed. Debts stand as debits, below zero.
CREATE OR REPLACE FUNCTION keep_owed() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_left bigint;
BEGIN
    PERFORM lock_earnings(ARRAY[NEW.owner_id]);
    SELECT provider_balance(NEW.account_kind, NEW.owner_id, '') INTO v_left;
    IF v_left > 0 THEN
        RAISE EXCEPTION '% would be paid % more than is owed on %', NEW.owner_id, v_left, NEW.account_kind
            USING ERRCODE = 'check_violation', CONSTRAINT = 'debt_never_overpaid';
    END IF;
    RETURN NULL;
END $$;
