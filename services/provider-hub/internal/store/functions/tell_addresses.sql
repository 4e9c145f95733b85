-- The addresses by which a provider is known are told to billing-ledger, which keeps digests of
-- them alone: payouts that the platform bears in part are held from whoever has the same address.
-- A wallet that has not signed is a claim, and is not told.
CREATE OR REPLACE FUNCTION tell_addresses() RETURNS trigger
LANGUAGE plpgsql SET search_path = hub, pg_temp AS $$
DECLARE
	wallet text := CASE WHEN NEW.owner_proven_at IS NOT NULL THEN NEW.owner_address END;
BEGIN
	IF wallet IS NOT NULL OR NEW.beneficiary_address IS NOT NULL THEN
		INSERT INTO account_event (kind, provider_id, data)
		VALUES ('provider.addresses', NEW.provider_id, jsonb_build_object('wallet', coalesce(wallet, ''),
			'payout_address', coalesce(NEW.beneficiary_address, '')));
	END IF;
	RETURN NULL;
END $$;
