-- An account or a provider bears about 1,000 marks. A further mark is passed over, because the
-- payment that brings it must not fail. Transactions at once may each add one more.
CREATE OR REPLACE FUNCTION bound_marks() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    borne bigint;
BEGIN
    IF TG_TABLE_NAME = 'account_mark' THEN
        SELECT count(*) INTO borne FROM account_mark m WHERE m.account_id = NEW.account_id;
    ELSE
        SELECT count(*) INTO borne FROM provider_mark m WHERE m.provider_id = NEW.provider_id;
    END IF;
    IF borne >= 1000 THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
