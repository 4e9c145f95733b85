-- +goose Up
-- Engines that call a model otherwise than they were asked for: one line for each
-- model of a provider, whatever the names. Nothing rests on it but what is shown.
CREATE TABLE answered_as (
	provider_id uuid NOT NULL REFERENCES provider,
	-- The catalog's name.
	model_id    text NOT NULL CHECK (char_length(model_id) BETWEEN 1 AND 256),
	-- What the engine said last: its own text, cleaned.
	answered_as text NOT NULL CHECK (char_length(answered_as) BETWEEN 1 AND 200),
	first_at    timestamptz NOT NULL,
	last_at     timestamptz NOT NULL CHECK (last_at >= first_at),
	answers     bigint NOT NULL CHECK (answers > 0),
	PRIMARY KEY (provider_id, model_id)
);
CREATE INDEX answered_as_by_age ON answered_as (last_at);
GRANT SELECT, INSERT, UPDATE (answered_as, first_at, last_at, answers), DELETE ON answered_as TO svc_hub;

-- +goose Down
DROP TABLE answered_as;
