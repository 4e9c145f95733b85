-- +goose Up
-- Billing-ledger is told by which addresses providers are known, in the outbox that it hears of
-- changes of status by.
ALTER TABLE account_event DROP CONSTRAINT account_event_kind_check;
ALTER TABLE account_event ADD CONSTRAINT account_event_kind_check
	CHECK (kind IN ('provider.status_changed', 'provider.addresses'));

CREATE TRIGGER provider_addresses_begin AFTER INSERT ON provider
	FOR EACH ROW EXECUTE FUNCTION tell_addresses();
CREATE TRIGGER provider_addresses_change AFTER UPDATE OF owner_address, owner_proven_at, beneficiary_address ON provider
	FOR EACH ROW WHEN ((OLD.owner_address, OLD.owner_proven_at, OLD.beneficiary_address)
		IS DISTINCT FROM (NEW.owner_address, NEW.owner_proven_at, NEW.beneficiary_address))
	EXECUTE FUNCTION tell_addresses();

-- Those of the providers that there are.
INSERT INTO account_event (kind, provider_id, data)
	SELECT 'provider.addresses', provider_id, jsonb_build_object(
		'wallet', CASE WHEN owner_proven_at IS NOT NULL THEN owner_address ELSE '' END,
		'payout_address', coalesce(beneficiary_address, ''))
	FROM provider WHERE owner_proven_at IS NOT NULL OR beneficiary_address IS NOT NULL;
