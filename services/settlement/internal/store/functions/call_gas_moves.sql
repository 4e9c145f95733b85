-- What the books are told of a call's cost stays. Its entry is set once.
CREATE OR REPLACE FUNCTION call_gas_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF OLD.entry_id IS NOT NULL OR NEW.entry_id IS NULL OR
        (OLD.chain_id, OLD.sender, OLD.nonce, OLD.units, OLD.rate_nano_usd, OLD.rate_source, OLD.rate_at, OLD.worthless)
        IS DISTINCT FROM
        (NEW.chain_id, NEW.sender, NEW.nonce, NEW.units, NEW.rate_nano_usd, NEW.rate_source, NEW.rate_at, NEW.worthless)
    THEN
        RAISE EXCEPTION 'what the books are told of gas stays' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
