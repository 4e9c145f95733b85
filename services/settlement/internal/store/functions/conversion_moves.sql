-- A conversion ends once. What it says stays, and how often it was tried only grows.
CREATE OR REPLACE FUNCTION conversion_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF num_nonnulls(OLD.entry_id, OLD.refusal) > 0
        OR (OLD.conversion_id, OLD.provider_id, OLD.account_id, OLD.nano_usd, OLD.requested_at, OLD.number, OLD.bound_at)
            IS DISTINCT FROM
           (NEW.conversion_id, NEW.provider_id, NEW.account_id, NEW.nano_usd, NEW.requested_at, NEW.number, NEW.bound_at)
        OR NEW.tries < OLD.tries
    THEN
        RAISE EXCEPTION 'a conversion ends once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
