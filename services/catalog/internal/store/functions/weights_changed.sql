-- Acts as the owner, so that the application can neither forget nor fake it.
-- What no single row can break is looked at here too.
CREATE OR REPLACE FUNCTION weights_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM weight_file GROUP BY model_id
               HAVING count(*) > 1000 OR sum(size_bytes) > 9007199254740991) THEN
        RAISE EXCEPTION 'the weights of a model have too many files or bytes' USING ERRCODE = 'check_violation';
    END IF;
    UPDATE revision r SET weights_revision = r.weights_revision + 1, weight_files = now_is.files, weight_text_bytes = now_is.text_bytes
    FROM (SELECT count(*) AS files, coalesce(sum(octet_length(filename) + octet_length(url)), 0) AS text_bytes
          FROM weight_file) AS now_is;
    PERFORM pg_notify('catalog_changed', '');
    RETURN NULL;
END $$;
