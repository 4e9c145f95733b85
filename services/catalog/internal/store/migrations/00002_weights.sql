-- The files of models' weights.

-- +goose Up
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

CREATE TRIGGER weights_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON weights
    FOR EACH STATEMENT EXECUTE FUNCTION weights_changed();
CREATE TRIGGER weight_file_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON weight_file
    FOR EACH STATEMENT EXECUTE FUNCTION weights_changed();

GRANT SELECT, INSERT, DELETE ON weights TO svc_catalog;
GRANT SELECT, INSERT ON weight_file TO svc_catalog;
