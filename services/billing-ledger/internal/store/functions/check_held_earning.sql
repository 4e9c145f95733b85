-- What is held was earned by the request, in the same transaction.
CREATE OR REPLACE FUNCTION check_held_earning() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM usage_settlement s WHERE s.day = NEW.day AND s.request_id = NEW.request_id
        AND (s.account_id, s.provider_id, s.payout, s.settled_at) = (NEW.account_id, NEW.provider_id, NEW.payout, NEW.held_at)
        AND NEW.book = CASE s.source WHEN 'plan' THEN to_char(s.day, 'YYYY-MM') ELSE '' END)
    THEN
        RAISE EXCEPTION 'request % did not earn what is held', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'held_earning_was_earned';
    END IF;
    RETURN NULL;
END $$;
