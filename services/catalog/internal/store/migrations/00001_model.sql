-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION words_fit(words text[], most integer) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT cardinality(words) <= most
       AND coalesce(bool_and(coalesce(w ~ '^[a-z0-9._-]{1,48}$', false)), true)
    FROM unnest(words) AS w
$$;
-- +goose StatementEnd

CREATE TABLE model (
    model_id text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(model_id) <= 128
           AND model_id ~ '^[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*$'
           AND NOT string_to_array(model_id, '/') && ARRAY['.', '..']
           AND model_id !~ '/providers$'),
    slug text COLLATE "C" NOT NULL CONSTRAINT model_slug_once UNIQUE
        CHECK (slug ~ '^[A-Za-z0-9._:-]{1,128}$' AND slug NOT IN ('.', '..')),
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 128 AND name !~ '[[:cntrl:]]'),
    category text NOT NULL CHECK (category IN ('llm', 'multimodal', 'embedding')),
    kind text NOT NULL CHECK (kind IN ('open', 'gateway')),
    tier text NOT NULL CHECK (tier IN ('free', 'standard', 'premium')),
    active boolean NOT NULL,
    context_tokens bigint NOT NULL CHECK (context_tokens BETWEEN 1 AND 100000000),
    max_output_tokens bigint NOT NULL
        CHECK (max_output_tokens BETWEEN 0 AND context_tokens AND (max_output_tokens > 0 OR category = 'embedding')),
    capabilities text[] NOT NULL CHECK (words_fit(capabilities, 32)),
    supported_parameters text[] NOT NULL CHECK (words_fit(supported_parameters, 64)),
    created_at timestamptz NOT NULL,
    deprecated_at timestamptz
);
COMMENT ON COLUMN model.deprecated_at IS 'Set by the owner of the schema, at least 30 days ahead; the application only reads it.';

CREATE TABLE price_version (
    price_version_id uuid PRIMARY KEY,
    model_id text COLLATE "C" NOT NULL REFERENCES model,
    input_pico_usd bigint NOT NULL CHECK (input_pico_usd BETWEEN 0 AND 1000000000000),
    output_pico_usd bigint NOT NULL CHECK (output_pico_usd BETWEEN 0 AND 1000000000000),
    payout_input_pico_usd bigint NOT NULL CHECK (payout_input_pico_usd BETWEEN 0 AND input_pico_usd),
    payout_output_pico_usd bigint NOT NULL CHECK (payout_output_pico_usd BETWEEN 0 AND output_pico_usd),
    valid_from timestamptz NOT NULL,
    valid_to timestamptz CHECK (valid_to > valid_from),
    CONSTRAINT price_version_priced_is_paid CHECK (
        (input_pico_usd = 0 OR payout_input_pico_usd > 0) AND (output_pico_usd = 0 OR payout_output_pico_usd > 0))
);
COMMENT ON TABLE price_version IS 'Prices in pico-USD per token, equal to micro-USD per 1M tokens. Only ever added; the end of a version is set once.';
CREATE UNIQUE INDEX price_version_current ON price_version (model_id) WHERE valid_to IS NULL;
CREATE INDEX price_version_of_model ON price_version (model_id, valid_from);

-- What a hold has pinned must stay what it was, whoever asks.
-- +goose StatementBegin
CREATE FUNCTION price_version_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.valid_to IS NULL AND NEW.valid_to IS NOT NULL
       AND (NEW.price_version_id, NEW.model_id, NEW.input_pico_usd, NEW.output_pico_usd,
            NEW.payout_input_pico_usd, NEW.payout_output_pico_usd, NEW.valid_from)
         = (OLD.price_version_id, OLD.model_id, OLD.input_pico_usd, OLD.output_pico_usd,
            OLD.payout_input_pico_usd, OLD.payout_output_pico_usd, OLD.valid_from) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a price version is immutable' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER price_version_keep BEFORE UPDATE OR DELETE ON price_version
    FOR EACH ROW EXECUTE FUNCTION price_version_keep();
CREATE TRIGGER price_version_keep_all BEFORE TRUNCATE ON price_version
    FOR EACH STATEMENT EXECUTE FUNCTION price_version_keep();

-- +goose StatementBegin
CREATE FUNCTION price_version_apart() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM price_version p WHERE p.model_id = NEW.model_id
               AND tstzrange(p.valid_from, p.valid_to) && tstzrange(NEW.valid_from, NEW.valid_to)) THEN
        RAISE EXCEPTION 'two price versions of a model overlap' USING ERRCODE = 'exclusion_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER price_version_apart BEFORE INSERT ON price_version
    FOR EACH ROW EXECUTE FUNCTION price_version_apart();

-- At most one version is current by the unique index, at least one by this,
-- looked at when the transaction ends.
-- +goose StatementBegin
CREATE FUNCTION model_has_price() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM price_version p WHERE p.model_id = NEW.model_id AND p.valid_to IS NULL)
       AND EXISTS (SELECT FROM model m WHERE m.model_id = NEW.model_id) THEN
        RAISE EXCEPTION 'model % has no current price', NEW.model_id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER model_has_price AFTER INSERT ON model
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_has_price();
CREATE CONSTRAINT TRIGGER price_version_has_successor AFTER UPDATE ON price_version
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_has_price();

GRANT SELECT, INSERT ON model TO svc_catalog;
GRANT UPDATE (slug, name, category, kind, tier, active, context_tokens, max_output_tokens,
              capabilities, supported_parameters) ON model TO svc_catalog;
GRANT SELECT, INSERT ON price_version TO svc_catalog;
GRANT UPDATE (valid_to) ON price_version TO svc_catalog;

-- +goose Down
DROP TABLE price_version;
DROP TABLE model;
DROP FUNCTION model_has_price, price_version_apart, price_version_keep, words_fit;
