-- +goose Up
-- What accounts are told: changes of their providers' status, until billing-ledger has
-- stored it.
CREATE TABLE account_event (
	event_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	kind        text NOT NULL CHECK (kind = 'provider.status_changed'),
	provider_id uuid NOT NULL,
	data        jsonb NOT NULL CONSTRAINT account_event_data CHECK (jsonb_typeof(data) = 'object'
		AND octet_length(data::text) <= 8192),
	created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
	tries       integer NOT NULL DEFAULT 0 CHECK (tries >= 0)
);
CREATE INDEX account_event_due ON account_event (due_at);

CREATE TRIGGER provider_status_told AFTER INSERT ON provider_status_change
	FOR EACH ROW WHEN (NEW.from_status <> NEW.to_status) EXECUTE FUNCTION tell_status();

GRANT SELECT, INSERT (kind, provider_id, data), UPDATE (due_at, tries), DELETE ON account_event TO svc_hub;
