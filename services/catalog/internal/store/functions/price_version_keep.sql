-- What a hold has pinned must stay what it was, whoever asks.
CREATE OR REPLACE FUNCTION price_version_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.valid_to IS NULL AND NEW.valid_to IS NOT NULL
       AND (NEW.price_version_id, NEW.model_id, NEW.input_pico_usd, NEW.output_pico_usd,
            NEW.payout_input_pico_usd, NEW.payout_output_pico_usd, NEW.payout_cached_input_pico_usd, NEW.valid_from, NEW.pricing_unit)
         = (OLD.price_version_id, OLD.model_id, OLD.input_pico_usd, OLD.output_pico_usd,
            OLD.payout_input_pico_usd, OLD.payout_output_pico_usd, OLD.payout_cached_input_pico_usd, OLD.valid_from, OLD.pricing_unit) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a price version is immutable' USING ERRCODE = 'restrict_violation';
END $$;
