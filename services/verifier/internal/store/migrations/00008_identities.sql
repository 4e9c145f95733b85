-- What is said of identities beyond the bound of their kind is passed over, so that the
-- other kinds of the same account are recorded.

-- +goose Up
DROP TRIGGER identity_bound ON identity;
CREATE TRIGGER identity_bound BEFORE INSERT ON identity FOR EACH ROW EXECUTE FUNCTION bound_identities();
