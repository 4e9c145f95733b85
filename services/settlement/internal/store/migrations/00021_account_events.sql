-- What accounts are told: payouts that are confirmed and penalties that are created, until
-- billing-ledger has stored it.

-- +goose Up
CREATE TABLE account_event (
    event_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('payout.confirmed', 'penalty.created')),
    provider_id uuid NOT NULL,
    data        jsonb NOT NULL CONSTRAINT account_event_data CHECK (jsonb_typeof(data) = 'object'
        AND octet_length(data::text) <= 8192),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries       integer NOT NULL DEFAULT 0 CHECK (tries >= 0)
);
CREATE INDEX account_event_due ON account_event (due_at);
COMMENT ON TABLE account_event IS 'Outbox of events for accounts. A row is written with what it says and deleted once billing-ledger has noted it.';

CREATE TRIGGER payout_told AFTER UPDATE OF state ON payout
    FOR EACH ROW WHEN (NEW.state = 'confirmed' AND OLD.state <> 'confirmed') EXECUTE FUNCTION tell_payout();
CREATE TRIGGER penalty_told AFTER INSERT ON penalty FOR EACH ROW EXECUTE FUNCTION tell_penalty();

GRANT SELECT, INSERT (kind, provider_id, data), UPDATE (due_at, tries), DELETE ON account_event TO svc_settlement;
