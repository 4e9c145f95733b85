CREATE OR REPLACE FUNCTION model_kind_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the kind of model % does not change', OLD.model_id USING ERRCODE = 'restrict_violation';
END $$;
