-- A balance that falls below low_at is told once. It must come back to a tenth above low_at
-- before it is told again, so that a balance that moves about low_at tells nothing.
CREATE OR REPLACE FUNCTION tell_low_balance() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    NEW.low := NOT NEW.low;
    IF NEW.low THEN
        INSERT INTO account_event (account_id, kind, data) VALUES (NEW.account_id, 'account.balance_low',
            jsonb_build_object('account_id', NEW.account_id, 'balance_usd_str', usd_text(NEW.posted),
                'threshold_usd_str', usd_text(NEW.low_at)));
    END IF;
    RETURN NEW;
END $$;
