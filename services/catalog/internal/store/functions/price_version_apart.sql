CREATE OR REPLACE FUNCTION price_version_apart() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM price_version p WHERE p.model_id = NEW.model_id
               AND tstzrange(p.valid_from, p.valid_to) && tstzrange(NEW.valid_from, NEW.valid_to)) THEN
        RAISE EXCEPTION 'two price versions of a model overlap' USING ERRCODE = 'exclusion_violation';
    END IF;
    RETURN NEW;
END $$;
