-- The category decides what the current price is for. Looked at when the
-- transaction ends, since both may change in it.
CREATE OR REPLACE FUNCTION model_unit() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM model m JOIN price_version p ON p.model_id = m.model_id AND p.valid_to IS NULL
               WHERE m.model_id = NEW.model_id AND p.pricing_unit <> CASE m.category
                   WHEN 'image' THEN 'per_image' WHEN 'audio' THEN 'per_minute' ELSE 'per_1m_tokens' END) THEN
        RAISE EXCEPTION 'model % is not priced as its category is', NEW.model_id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
