-- +goose Up
ALTER TABLE model ADD COLUMN min_vram_gb integer NOT NULL DEFAULT 0 CHECK (min_vram_gb BETWEEN 0 AND 65536);
COMMENT ON COLUMN model.min_vram_gb IS 'What a GPU needs for the model, in GB; 0 for not known.';
GRANT UPDATE (min_vram_gb) ON model TO svc_catalog;
-- Both are routes. NOT VALID spares models that are older than the routes.
ALTER TABLE model ADD CONSTRAINT model_id_is_no_route
    CHECK (model_id <> 'catalog' AND model_id !~ '/files$') NOT VALID;

CREATE TABLE weights (
    model_id text COLLATE "C" PRIMARY KEY REFERENCES model,
    source_url text COLLATE "C" NOT NULL
        CHECK (octet_length(source_url) <= 256 AND (source_url = '' OR source_url ~ '^https://[!-~]+$'))
);
COMMENT ON TABLE weights IS 'Models whose weights are known. A new revision takes the place of the old one.';

CREATE TABLE weight_file (
    model_id text COLLATE "C" NOT NULL REFERENCES weights ON DELETE CASCADE,
    filename text COLLATE "C" NOT NULL
        CHECK (octet_length(filename) BETWEEN 1 AND 255
           AND filename ~ '^[ -~]+$' AND filename !~ '[\\:*?"<>|]'
           AND NOT string_to_array(filename, '/') && ARRAY['', '.', '..']),
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    size_bytes bigint NOT NULL CHECK (size_bytes BETWEEN 0 AND 9007199254740991),
    url text COLLATE "C" NOT NULL CHECK (octet_length(url) <= 1024 AND url ~ '^https://[!-~]+$'),
    PRIMARY KEY (model_id, filename)
);
COMMENT ON TABLE weight_file IS 'The files of a model''s weights.';

ALTER TABLE revision
    ADD COLUMN weights_revision bigint NOT NULL DEFAULT 0,
    ADD COLUMN weight_files bigint NOT NULL DEFAULT 0 CONSTRAINT revision_weight_files_bound CHECK (weight_files <= 100000),
    ADD COLUMN weight_text_bytes bigint NOT NULL DEFAULT 0 CONSTRAINT revision_weight_text_bound CHECK (weight_text_bytes <= 33554432);

-- Acts as the owner, so that the application can neither forget nor fake it.
-- What no single row can break is looked at here too.
-- +goose StatementBegin
CREATE FUNCTION weights_changed() RETURNS trigger
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
-- +goose StatementEnd
CREATE TRIGGER weights_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON weights
    FOR EACH STATEMENT EXECUTE FUNCTION weights_changed();
CREATE TRIGGER weight_file_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON weight_file
    FOR EACH STATEMENT EXECUTE FUNCTION weights_changed();

GRANT SELECT, INSERT, DELETE ON weights TO svc_catalog;
GRANT SELECT, INSERT ON weight_file TO svc_catalog;

-- +goose Down
DROP TABLE weight_file;
DROP TABLE weights;
DROP FUNCTION weights_changed;
ALTER TABLE revision DROP COLUMN weights_revision, DROP COLUMN weight_files, DROP COLUMN weight_text_bytes;
ALTER TABLE model DROP CONSTRAINT model_id_is_no_route;
ALTER TABLE model DROP COLUMN min_vram_gb;
