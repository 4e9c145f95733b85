-- Money for verification goes to house accounts alone, so that whoever may ask for it
-- cannot give credit to a consumer.
CREATE OR REPLACE FUNCTION refuse_stray_verification() RETURNS trigger LANGUAGE plpgsql
    SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM house_account h WHERE h.account_id = NEW.owner_id) THEN
        RAISE EXCEPTION 'account % is not a house account', NEW.owner_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'verification_funds_house_accounts';
    END IF;
    RETURN NEW;
END $$;
