-- Models, their immutable price versions, and the revision that moves with both.

-- +goose Up
CREATE TABLE model (
    model_id text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(model_id) <= 128
           AND model_id ~ '^[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*$'
           AND NOT string_to_array(model_id, '/') && ARRAY['.', '..']
           AND model_id !~ '/providers$'),
    slug text COLLATE "C" NOT NULL CONSTRAINT model_slug_once UNIQUE
        CHECK (slug ~ '^[A-Za-z0-9._:-]{1,128}$' AND slug NOT IN ('.', '..')),
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 128 AND name !~ '[[:cntrl:]]'),
    category text NOT NULL CHECK (category IN ('llm', 'multimodal', 'embedding', 'image', 'audio')),
    kind text NOT NULL CHECK (kind IN ('open', 'gateway')),
    tier text NOT NULL CHECK (tier IN ('free', 'standard', 'premium')),
    active boolean NOT NULL,
    context_tokens bigint NOT NULL CHECK (context_tokens BETWEEN 1 AND 100000000),
    max_output_tokens bigint NOT NULL,
    capabilities text[] NOT NULL CHECK (words_fit(capabilities, 32)),
    supported_parameters text[] NOT NULL CHECK (words_fit(supported_parameters, 64)),
    created_at timestamptz NOT NULL,
    deprecated_at timestamptz,
    min_vram_gb integer NOT NULL DEFAULT 0 CHECK (min_vram_gb BETWEEN 0 AND 65536),
    successor text COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT model_output_bound CHECK (max_output_tokens BETWEEN 0 AND context_tokens
       AND (max_output_tokens > 0 OR category IN ('embedding', 'image', 'audio'))),
    -- Both are routes.
    CONSTRAINT model_id_is_no_route CHECK (model_id <> 'catalog' AND model_id !~ '/files$'),
    CHECK (octet_length(successor) <= 128 AND successor <> model_id
       AND (successor = '' OR successor ~ '^[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*$'))
);
COMMENT ON COLUMN model.deprecated_at IS 'When the model goes away; announced at least 30 days ahead.';
COMMENT ON COLUMN model.min_vram_gb IS 'What a GPU needs for the model, in GB; 0 for not known.';
COMMENT ON COLUMN model.successor IS 'The id of the model that takes the place of one that goes away; empty for none.';

CREATE TABLE price_version (
    price_version_id uuid PRIMARY KEY,
    model_id text COLLATE "C" NOT NULL REFERENCES model,
    input_pico_usd bigint NOT NULL,
    output_pico_usd bigint NOT NULL,
    payout_input_pico_usd bigint NOT NULL,
    payout_output_pico_usd bigint NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    pricing_unit text COLLATE "C" NOT NULL DEFAULT 'per_1m_tokens'
        CHECK (pricing_unit IN ('per_1m_tokens', 'per_image', 'per_minute')),
    CONSTRAINT price_version_input_bound CHECK (input_pico_usd BETWEEN 0 AND CASE pricing_unit
        WHEN 'per_1m_tokens' THEN 1000000000000 WHEN 'per_minute' THEN 1000000000000000 ELSE 0 END),
    CONSTRAINT price_version_output_bound CHECK (output_pico_usd BETWEEN 0 AND CASE pricing_unit
        WHEN 'per_1m_tokens' THEN 1000000000000 WHEN 'per_image' THEN 1000000000000000 ELSE 0 END),
    CONSTRAINT price_version_check CHECK (payout_input_pico_usd BETWEEN 0 AND input_pico_usd),
    CONSTRAINT price_version_check1 CHECK (payout_output_pico_usd BETWEEN 0 AND output_pico_usd),
    CONSTRAINT price_version_check2 CHECK (valid_to > valid_from),
    CONSTRAINT price_version_priced_is_paid CHECK (
        (input_pico_usd = 0 OR payout_input_pico_usd > 0) AND (output_pico_usd = 0 OR payout_output_pico_usd > 0))
);
COMMENT ON TABLE price_version IS 'Prices in pico-USD per token, equal to micro-USD per 1M tokens, or per image, or per minute of audio. Only ever added; the end of a version is set once.';
CREATE UNIQUE INDEX price_version_current ON price_version (model_id) WHERE valid_to IS NULL;
CREATE INDEX price_version_of_model ON price_version (model_id, valid_from);

CREATE TRIGGER price_version_keep BEFORE UPDATE OR DELETE ON price_version
    FOR EACH ROW EXECUTE FUNCTION price_version_keep();
CREATE TRIGGER price_version_keep_all BEFORE TRUNCATE ON price_version
    FOR EACH STATEMENT EXECUTE FUNCTION price_version_keep();
CREATE TRIGGER price_version_apart BEFORE INSERT ON price_version
    FOR EACH ROW EXECUTE FUNCTION price_version_apart();
CREATE CONSTRAINT TRIGGER model_has_price AFTER INSERT ON model
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_has_price();
CREATE CONSTRAINT TRIGGER price_version_has_successor AFTER UPDATE ON price_version
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_has_price();
CREATE CONSTRAINT TRIGGER model_unit AFTER INSERT OR UPDATE OF category ON model
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_unit();
CREATE CONSTRAINT TRIGGER price_version_unit AFTER INSERT ON price_version
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_unit();

CREATE TABLE revision (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL,
    models integer NOT NULL CONSTRAINT revision_models_bound CHECK (models <= 10000),
    text_bytes bigint NOT NULL CONSTRAINT revision_text_bound CHECK (text_bytes <= 6291456),
    weights_revision bigint NOT NULL DEFAULT 0,
    weight_files bigint NOT NULL DEFAULT 0 CONSTRAINT revision_weight_files_bound CHECK (weight_files <= 100000),
    weight_text_bytes bigint NOT NULL DEFAULT 0 CONSTRAINT revision_weight_text_bound CHECK (weight_text_bytes <= 33554432)
);
COMMENT ON TABLE revision IS 'Moves with every change of the catalog, whoever made it, and bounds the whole: a snapshot must fit one message.';
INSERT INTO revision (revision, models, text_bytes) VALUES (0, 0, 0);

CREATE TRIGGER model_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON model
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_changed();
CREATE TRIGGER price_version_changed AFTER INSERT ON price_version
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_changed();

GRANT SELECT, INSERT ON model TO svc_catalog;
GRANT UPDATE (slug, name, category, kind, tier, active, context_tokens, max_output_tokens, capabilities,
    supported_parameters, deprecated_at, min_vram_gb, successor) ON model TO svc_catalog;
GRANT SELECT, INSERT ON price_version TO svc_catalog;
GRANT UPDATE (valid_to) ON price_version TO svc_catalog;
GRANT SELECT ON revision TO svc_catalog;
