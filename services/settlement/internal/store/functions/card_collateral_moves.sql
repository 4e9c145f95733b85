-- What is known of collateral by card changes with its version.
CREATE OR REPLACE FUNCTION card_collateral_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.provider_id <> OLD.provider_id OR NEW.version NOT IN (OLD.version, OLD.version + 1)
        OR NEW.version = OLD.version AND (NEW.free_nano_usd, NEW.owed_nano_usd, NEW.reversed, NEW.stale)
            IS DISTINCT FROM (OLD.free_nano_usd, OLD.owed_nano_usd, OLD.reversed, OLD.stale)
    THEN
        RAISE EXCEPTION 'collateral by card changes with its version' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
