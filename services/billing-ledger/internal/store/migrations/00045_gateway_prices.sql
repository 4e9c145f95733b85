-- Which price versions are of gateway models.

-- +goose Up

-- Vendors alone serve gateway models, so a price version of such a model tells whoever served it
-- as a vendor, although no hub has said so. From now on all of them are here, also those without a
-- price for cached tokens, whose rate is 0.
ALTER TABLE vendor_price DROP CONSTRAINT vendor_price_cached_rate_check;
ALTER TABLE vendor_price ADD CONSTRAINT vendor_price_cached_rate_check CHECK (cached_rate >= 0);
