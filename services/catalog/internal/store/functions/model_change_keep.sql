-- What an operator scheduled stays what it was, and ends once, whoever asks.
CREATE OR REPLACE FUNCTION model_change_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.state = 'scheduled' AND NEW.state <> 'scheduled'
       AND (NEW.change_id, NEW.model_id, NEW.effective_from, NEW.draft, NEW.pricing_unit, NEW.input_pico_usd,
            NEW.output_pico_usd, NEW.payout_input_pico_usd, NEW.payout_output_pico_usd,
            NEW.payout_cached_input_pico_usd, NEW.base, NEW.base_price_version_id, NEW.scheduled_by, NEW.scheduled_at)
         = (OLD.change_id, OLD.model_id, OLD.effective_from, OLD.draft, OLD.pricing_unit, OLD.input_pico_usd,
            OLD.output_pico_usd, OLD.payout_input_pico_usd, OLD.payout_output_pico_usd,
            OLD.payout_cached_input_pico_usd, OLD.base, OLD.base_price_version_id, OLD.scheduled_by,
            OLD.scheduled_at) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a scheduled change is immutable' USING ERRCODE = 'restrict_violation';
END $$;
