-- Only a vendor has a price of its own for what it read from its cache, at most its price of
-- other prompt tokens, and only gateway models have a vendor. Looked at when the transaction
-- ends, since the model and its price may change in it.
CREATE OR REPLACE FUNCTION model_cached_price() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM model m JOIN price_version p ON p.model_id = m.model_id AND p.valid_to IS NULL
               WHERE m.model_id = NEW.model_id AND p.payout_cached_input_pico_usd > 0
                   AND (m.kind <> 'gateway' OR p.pricing_unit <> 'per_1m_tokens'
                       OR p.payout_cached_input_pico_usd > p.payout_input_pico_usd)) THEN
        RAISE EXCEPTION 'model % has no such price of cached tokens', NEW.model_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
