-- The settlement chain of a provider is the last one of its history, or the one that a provider begins with.
CREATE OR REPLACE FUNCTION settlement_chain_entered() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    -- The row as it stands at the end of the transaction: it may have been inserted and changed in it.
    IF (SELECT p.settlement_chain_id FROM provider p WHERE p.provider_id = NEW.provider_id) <> coalesce(
        (SELECT c.chain_id FROM settlement_chain_change c WHERE c.provider_id = NEW.provider_id
         ORDER BY c.since DESC LIMIT 1), 8453)
    THEN
        RAISE EXCEPTION 'a settlement chain changes with an entry' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
