-- +goose Up
-- Which claims of a machine's models are taken as less than was claimed, in words.
ALTER TABLE provider_node ADD COLUMN cut_claims text NOT NULL DEFAULT '' CHECK (char_length(cut_claims) <= 2000);

-- +goose Down
ALTER TABLE provider_node DROP COLUMN cut_claims;
