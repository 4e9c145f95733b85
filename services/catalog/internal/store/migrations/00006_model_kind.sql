-- The kind of a model does not change.

-- +goose Up

-- The ledger knows by the price version who serves a model, and a kind changes without a new one. A
-- provider of a gateway model that became open would be a vendor for ever, and accrue nothing.
CREATE TRIGGER model_kind_keep BEFORE UPDATE OF kind ON model
    FOR EACH ROW WHEN (OLD.kind IS DISTINCT FROM NEW.kind) EXECUTE FUNCTION model_kind_keep();
