-- A share withholds what its month's close withheld of the provider's held earnings.
CREATE OR REPLACE FUNCTION check_closed_share() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NEW.withheld <> (SELECT coalesce(sum(payout), 0) FROM held_earning
        WHERE book = NEW.month AND provider_id = NEW.provider_id AND withheld)
    THEN
        RAISE EXCEPTION 'the share of % of % does not withhold what was held', NEW.provider_id, NEW.month
            USING ERRCODE = 'check_violation', CONSTRAINT = 'closed_share_withholds';
    END IF;
    RETURN NULL;
END $$;
