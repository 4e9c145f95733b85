-- Vendors of gateway models: providers that the platform registers, with their servers.
-- provider_active_is_qualified has a new text too.

-- +goose Up
ALTER TABLE provider
	-- It is said when the row is made, and never changes.
	ADD COLUMN vendor boolean NOT NULL DEFAULT false,
	-- The name of a vendor, which no other vendor has; written by the trigger alone.
	ADD COLUMN vendor_name text;
CREATE UNIQUE INDEX provider_vendor_name ON provider (vendor_name);
CREATE INDEX provider_vendors ON provider (created_at, provider_id) WHERE vendor;
CREATE TRIGGER provider_vendor_is_the_platforms BEFORE INSERT OR UPDATE ON provider
	FOR EACH ROW WHEN (NEW.vendor) EXECUTE FUNCTION provider_vendor_is_the_platforms();
CREATE TRIGGER provider_key_of_no_vendor BEFORE INSERT ON provider_key
	FOR EACH ROW EXECUTE FUNCTION provider_key_of_no_vendor();
