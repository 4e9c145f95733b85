-- An account or a provider bears about 1,000 marks of each cause. A further mark is passed over,
-- because the payment that brings it must not fail. Each cause is counted by itself: else an owner
-- could fill an account with deposits from throw-away addresses, and the card or the wallet that
-- would show the owner would be passed over. A provider bears about 100,000 payout addresses, because
-- the newest must mark it, and a hub accepts ten a day. Transactions at once may each add one more.
CREATE OR REPLACE FUNCTION bound_marks() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    borne bigint;
BEGIN
    IF TG_TABLE_NAME = 'account_mark' THEN
        SELECT count(*) INTO borne FROM account_mark m WHERE m.account_id = NEW.account_id AND m.cause = NEW.cause;
    ELSE
        SELECT count(*) INTO borne FROM provider_mark m WHERE m.provider_id = NEW.provider_id AND m.cause = NEW.cause;
    END IF;
    IF borne >= (CASE NEW.cause WHEN 'payout_address' THEN 100000 ELSE 1000 END) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
