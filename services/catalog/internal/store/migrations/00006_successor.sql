-- +goose Up
ALTER TABLE model ADD COLUMN successor text COLLATE "C" NOT NULL DEFAULT ''
    CHECK (octet_length(successor) <= 128 AND successor <> model_id
       AND (successor = '' OR successor ~ '^[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*$'));
COMMENT ON COLUMN model.successor IS 'The id of the model that takes the place of one that goes away; empty for none.';
GRANT UPDATE (successor) ON model TO svc_catalog;

-- The id counts among the text of the catalog, which must fit one message.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION catalog_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = catalog, pg_temp AS $$
BEGIN
    UPDATE revision r SET revision = r.revision + 1, models = now_is.models, text_bytes = now_is.text_bytes
    FROM (SELECT count(*) AS models, coalesce(sum(
              octet_length(model_id) + octet_length(slug) + octet_length(name)
              + octet_length(array_to_string(capabilities, '   '))
              + octet_length(array_to_string(supported_parameters, '   '))), 0) AS text_bytes
          FROM model) AS now_is;
    PERFORM pg_notify('catalog_changed', '');
    RETURN NULL;
END $$;
-- +goose StatementEnd
ALTER TABLE model DROP COLUMN successor;
