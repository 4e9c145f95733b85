-- Nobody has collateral by card for which no card was charged: an entry is that of a
-- payment, of a reversal or of a dispute that was won, with its provider and its amount. A cent is 10,000,000
-- nano-USD.
CREATE OR REPLACE FUNCTION check_card_collateral() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM entry e JOIN checkout c ON c.session_id = e.business_id
            JOIN card_payment p ON p.checkout_id = c.id AND p.entry_id = e.id
            JOIN posting l ON l.entry_id = e.id AND l.account_kind = 'l:provider:collateral' AND l.owner_id = c.provider_id
        WHERE e.id = NEW.entry_id AND e.kind = 'collateral_card' AND c.purpose = 'collateral'
            AND -NEW.amount = c.cents * 10000000
        UNION ALL
        SELECT FROM entry e JOIN card_reversal r ON r.id = e.business_id AND r.entry_id = e.id
            JOIN card_payment p ON p.id = r.payment_id JOIN checkout c ON c.id = p.checkout_id
        WHERE e.id = NEW.entry_id AND e.kind = 'collateral_card_reversed' AND c.purpose = 'collateral'
            AND NEW.amount = r.cents * 10000000
            AND NOT EXISTS (SELECT FROM posting l WHERE l.entry_id = e.id AND l.owner_id <> c.provider_id)
        UNION ALL
        SELECT FROM entry e JOIN card_dispute_won w ON w.reversal_id = e.business_id AND w.entry_id = e.id
            JOIN card_reversal r ON r.id = w.reversal_id
            JOIN card_payment p ON p.id = r.payment_id JOIN checkout c ON c.id = p.checkout_id
        WHERE e.id = NEW.entry_id AND e.kind = 'collateral_dispute_won' AND c.purpose = 'collateral'
            AND -NEW.amount = r.cents * 10000000
            AND NOT EXISTS (SELECT FROM posting l WHERE l.entry_id = e.id AND l.owner_id <> c.provider_id))
    THEN
        RAISE EXCEPTION 'no card was charged for entry %', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_collateral_is_paid';
    END IF;
    RETURN NULL;
END $$;
