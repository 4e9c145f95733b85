-- +goose Up
ALTER TABLE model DROP CONSTRAINT model_category_check;
ALTER TABLE model ADD CONSTRAINT model_category_check
    CHECK (category IN ('llm', 'multimodal', 'embedding', 'image', 'audio'));
ALTER TABLE model DROP CONSTRAINT model_check;
ALTER TABLE model ADD CONSTRAINT model_output_bound
    CHECK (max_output_tokens BETWEEN 0 AND context_tokens
       AND (max_output_tokens > 0 OR category IN ('embedding', 'image', 'audio')));
COMMENT ON COLUMN model.deprecated_at IS 'When the model goes away; announced at least 30 days ahead.';
GRANT UPDATE (deprecated_at) ON model TO svc_catalog;

ALTER TABLE price_version ADD COLUMN pricing_unit text COLLATE "C" NOT NULL DEFAULT 'per_1m_tokens'
    CHECK (pricing_unit IN ('per_1m_tokens', 'per_image', 'per_minute'));
ALTER TABLE price_version DROP CONSTRAINT price_version_input_pico_usd_check;
ALTER TABLE price_version DROP CONSTRAINT price_version_output_pico_usd_check;
ALTER TABLE price_version ADD CONSTRAINT price_version_input_bound
    CHECK (input_pico_usd BETWEEN 0 AND CASE pricing_unit
           WHEN 'per_1m_tokens' THEN 1000000000000 WHEN 'per_minute' THEN 1000000000000000 ELSE 0 END);
ALTER TABLE price_version ADD CONSTRAINT price_version_output_bound
    CHECK (output_pico_usd BETWEEN 0 AND CASE pricing_unit
           WHEN 'per_1m_tokens' THEN 1000000000000 WHEN 'per_image' THEN 1000000000000000 ELSE 0 END);
COMMENT ON TABLE price_version IS 'Prices in pico-USD per token, equal to micro-USD per 1M tokens, or per image, or per minute of audio. Only ever added; the end of a version is set once.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION price_version_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.valid_to IS NULL AND NEW.valid_to IS NOT NULL
       AND (NEW.price_version_id, NEW.model_id, NEW.input_pico_usd, NEW.output_pico_usd,
            NEW.payout_input_pico_usd, NEW.payout_output_pico_usd, NEW.valid_from, NEW.pricing_unit)
         = (OLD.price_version_id, OLD.model_id, OLD.input_pico_usd, OLD.output_pico_usd,
            OLD.payout_input_pico_usd, OLD.payout_output_pico_usd, OLD.valid_from, OLD.pricing_unit) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a price version is immutable' USING ERRCODE = 'restrict_violation';
END $$;

-- The category decides what the current price is for. Looked at when the
-- transaction ends, since both may change in it.
CREATE FUNCTION model_unit() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM model m JOIN price_version p ON p.model_id = m.model_id AND p.valid_to IS NULL
               WHERE m.model_id = NEW.model_id AND p.pricing_unit <> CASE m.category
                   WHEN 'image' THEN 'per_image' WHEN 'audio' THEN 'per_minute' ELSE 'per_1m_tokens' END) THEN
        RAISE EXCEPTION 'model % is not priced as its category is', NEW.model_id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER model_unit AFTER INSERT OR UPDATE OF category ON model
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_unit();
CREATE CONSTRAINT TRIGGER price_version_unit AFTER INSERT ON price_version
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_unit();

-- +goose Down
DROP TRIGGER price_version_unit ON price_version;
DROP TRIGGER model_unit ON model;
DROP FUNCTION model_unit;
ALTER TABLE price_version DROP COLUMN pricing_unit CASCADE;
ALTER TABLE price_version ADD CONSTRAINT price_version_input_pico_usd_check CHECK (input_pico_usd BETWEEN 0 AND 1000000000000);
ALTER TABLE price_version ADD CONSTRAINT price_version_output_pico_usd_check CHECK (output_pico_usd BETWEEN 0 AND 1000000000000);
REVOKE UPDATE (deprecated_at) ON model FROM svc_catalog;
ALTER TABLE model DROP CONSTRAINT model_output_bound;
ALTER TABLE model ADD CONSTRAINT model_check
    CHECK (max_output_tokens BETWEEN 0 AND context_tokens AND (max_output_tokens > 0 OR category = 'embedding'));
ALTER TABLE model DROP CONSTRAINT model_category_check;
ALTER TABLE model ADD CONSTRAINT model_category_check CHECK (category IN ('llm', 'multimodal', 'embedding'));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION price_version_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.valid_to IS NULL AND NEW.valid_to IS NOT NULL
       AND (NEW.price_version_id, NEW.model_id, NEW.input_pico_usd, NEW.output_pico_usd,
            NEW.payout_input_pico_usd, NEW.payout_output_pico_usd, NEW.valid_from)
         = (OLD.price_version_id, OLD.model_id, OLD.input_pico_usd, OLD.output_pico_usd,
            OLD.payout_input_pico_usd, OLD.payout_output_pico_usd, OLD.valid_from) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a price version is immutable' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
