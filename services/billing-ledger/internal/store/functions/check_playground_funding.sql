-- Money for the playground goes to the account that pays for it, and never makes that account
-- have more than the budget of the day. It is checked when the entry is whole and the wallet moved.
CREATE OR REPLACE FUNCTION check_playground_funding() RETURNS trigger LANGUAGE plpgsql
    SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM playground_account p JOIN wallet w ON w.account_id = p.account_id
        JOIN playground_day d ON d.day = (now() AT TIME ZONE 'UTC')::date
        WHERE p.account_id = NEW.owner_id AND w.posted <= d.budget)
    THEN
        RAISE EXCEPTION 'account % does not pay for the playground, or has more than its budget', NEW.owner_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'playground_funds_its_account';
    END IF;
    RETURN NULL;
END $$;
