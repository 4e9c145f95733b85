-- A payout that is confirmed is told to the account of the provider's user.
CREATE OR REPLACE FUNCTION tell_payout() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    INSERT INTO account_event (kind, provider_id, data)
    SELECT 'payout.confirmed', NEW.provider_id, jsonb_build_object('payout_id', NEW.payout_id,
        'provider_id', NEW.provider_id, 'chain_id', NEW.chain_id, 'gross_usd_str', usd_text(NEW.gross_nano_usd),
        'fee_usd_str', usd_text(NEW.fee_nano_usd), 'net_usd_str', usd_text(NEW.gross_nano_usd - NEW.fee_nano_usd),
        'address', '0x' || encode(NEW.address, 'hex'), 'tx_hash', coalesce((SELECT '0x' || encode(e.hash, 'hex')
            FROM chain_call c JOIN call_end e USING (chain_id, sender, nonce)
            WHERE c.purpose = 'payout' AND c.ref = NEW.payout_id::text), ''));
    RETURN NULL;
END $$;
