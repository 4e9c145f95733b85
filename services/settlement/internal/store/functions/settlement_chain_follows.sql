-- An entry of the history comes with the change of its provider.
CREATE OR REPLACE FUNCTION settlement_chain_follows() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM provider p WHERE p.provider_id = NEW.provider_id AND p.settlement_chain_id = (
        SELECT c.chain_id FROM settlement_chain_change c WHERE c.provider_id = NEW.provider_id
        ORDER BY c.since DESC LIMIT 1))
    THEN
        RAISE EXCEPTION 'an entry comes with the change of its provider' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
