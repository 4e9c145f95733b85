-- Gateway models: what a vendor is owed for prompt tokens that it read from its cache.

-- +goose Up
ALTER TABLE price_version ADD COLUMN payout_cached_input_pico_usd bigint NOT NULL DEFAULT 0
    CONSTRAINT price_version_cached_bound CHECK (payout_cached_input_pico_usd >= 0);
COMMENT ON COLUMN price_version.payout_cached_input_pico_usd IS 'What a vendor is owed for a prompt token that it read from its cache; 0 where that is what another prompt token costs.';

CREATE CONSTRAINT TRIGGER model_cached_price AFTER UPDATE OF kind ON model
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_cached_price();
CREATE CONSTRAINT TRIGGER price_version_cached_price AFTER INSERT ON price_version
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION model_cached_price();
