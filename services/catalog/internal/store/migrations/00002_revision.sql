-- +goose Up
CREATE TABLE revision (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL,
    models integer NOT NULL CONSTRAINT revision_models_bound CHECK (models <= 10000),
    text_bytes bigint NOT NULL CONSTRAINT revision_text_bound CHECK (text_bytes <= 6291456)
);
COMMENT ON TABLE revision IS 'Moves with every change of the catalog, whoever made it, and bounds the whole: a snapshot must fit one message.';
INSERT INTO revision (revision, models, text_bytes) VALUES (0, 0, 0);

-- Acts as the owner, so that the application can neither forget nor fake it.
-- +goose StatementBegin
CREATE FUNCTION catalog_changed() RETURNS trigger
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
CREATE TRIGGER model_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON model
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_changed();
CREATE TRIGGER price_version_changed AFTER INSERT ON price_version
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_changed();

GRANT SELECT ON revision TO svc_catalog;

-- +goose Down
DROP TRIGGER price_version_changed ON price_version;
DROP TRIGGER model_changed ON model;
DROP FUNCTION catalog_changed;
DROP TABLE revision;
