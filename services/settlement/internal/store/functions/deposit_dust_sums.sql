-- Dust is at its address. This runs as the owner, because nobody else writes sums.
CREATE OR REPLACE FUNCTION deposit_dust_sums() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
BEGIN
    PERFORM add_deposit_balance(NEW.deposit_index, NEW.chain_id, NEW.token, 0, 0,
        NEW.amount - CASE WHEN TG_OP = 'UPDATE' THEN OLD.amount ELSE 0 END, 0, 0);
    RETURN NULL;
END $$;
