-- Acts as the owner, so that the application can neither forget nor fake it. The
-- id of a successor counts among the text of the catalog, which must fit one message.
CREATE OR REPLACE FUNCTION catalog_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = catalog, pg_temp AS $$
BEGIN
    UPDATE revision r SET revision = r.revision + 1, models = now_is.models, text_bytes = now_is.text_bytes
    FROM (SELECT count(*) AS models, coalesce(sum(
              octet_length(model_id) + octet_length(slug) + octet_length(name) + octet_length(successor)
              + octet_length(array_to_string(capabilities, '   '))
              + octet_length(array_to_string(supported_parameters, '   '))), 0) AS text_bytes
          FROM model) AS now_is;
    PERFORM pg_notify('catalog_changed', '');
    RETURN NULL;
END $$;
