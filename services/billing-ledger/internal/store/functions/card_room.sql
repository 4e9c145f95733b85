-- What of a provider's card payments has not gone back, less its collateral, what is in
-- escrow, and what waits to be refunded and was asked of no card: see ledger.CardBacking. A
-- cent is 10,000,000 nano-USD.
CREATE OR REPLACE FUNCTION card_room(p_provider uuid) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = billing, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(sum(cents - reversed - refunded), 0) * 10000000 FROM card_payment_back
            WHERE provider_id = p_provider)
        - provider_balance('l:provider:collateral', p_provider, '')
        - provider_balance('l:provider:slash_escrow', p_provider, '')
        - provider_balance('l:provider:collateral_refund_pending', p_provider, '')
        + (SELECT coalesce(sum(f.cents), 0) * 10000000 FROM card_refund f
            JOIN card_payment_back b ON b.payment_id = f.payment_id AND b.provider_id = p_provider
            WHERE f.state <> 'reversed' AND NOT EXISTS (SELECT FROM entry e
                WHERE e.kind = 'collateral_refund_paid' AND e.business_id = refund_key(f.id, f.attempt)));
END $$;
