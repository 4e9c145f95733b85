-- At most one version is current by the unique index, at least one by this,
-- looked at when the transaction ends.
CREATE OR REPLACE FUNCTION model_has_price() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM price_version p WHERE p.model_id = NEW.model_id AND p.valid_to IS NULL)
       AND EXISTS (SELECT FROM model m WHERE m.model_id = NEW.model_id) THEN
        RAISE EXCEPTION 'model % has no current price', NEW.model_id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
