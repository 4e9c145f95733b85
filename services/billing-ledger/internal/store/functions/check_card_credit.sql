-- Nobody has credit by card for which no card was charged, and none is taken for what did not go
-- back: an entry is that of the payment of a top-up, of a reversal, of a refund, of a dispute that
-- was won, or of a refund that no card took, with its account and its amount. A cent is 10,000,000
-- nano-USD.
CREATE OR REPLACE FUNCTION check_card_credit() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM entry e JOIN card_payment p ON p.entry_id = e.id JOIN checkout c ON c.id = p.checkout_id
            JOIN posting l ON l.entry_id = e.id AND l.account_kind = 'l:consumer:available' AND l.owner_id = c.account_id
        WHERE e.id = NEW.entry_id AND e.kind = 'card_topup' AND c.purpose = 'topup' AND c.state = 'paid'
            AND c.id::text = e.business_id AND p.cents = c.cents + c.fee_cents
            AND -NEW.amount = p.cents * 10000000 AND l.amount = c.cents * 10000000
        UNION ALL
        SELECT FROM entry e JOIN card_reversal r ON r.id = e.business_id AND r.entry_id = e.id
            JOIN card_payment p ON p.id = r.payment_id JOIN checkout c ON c.id = p.checkout_id
        WHERE e.id = NEW.entry_id AND e.kind = 'card_reversed' AND c.purpose = 'topup'
            AND NEW.amount = r.cents * 10000000
            AND NOT EXISTS (SELECT FROM posting l WHERE l.entry_id = e.id AND l.owner_id <> c.account_id)
        UNION ALL
        SELECT FROM entry e JOIN card_refund f ON f.id::text = e.business_id AND f.entry_id = e.id
            JOIN card_payment p ON p.id = f.payment_id JOIN checkout c ON c.id = p.checkout_id
        WHERE e.id = NEW.entry_id AND e.kind = 'card_reversed' AND c.purpose = 'topup'
            AND NEW.amount = f.cents * 10000000
            AND NOT EXISTS (SELECT FROM posting l WHERE l.entry_id = e.id AND l.owner_id <> c.account_id)
        UNION ALL
        SELECT FROM entry e JOIN card_dispute_won w ON w.reversal_id = e.business_id AND w.entry_id = e.id
            JOIN card_reversal r ON r.id = w.reversal_id
            JOIN card_payment p ON p.id = r.payment_id JOIN checkout c ON c.id = p.checkout_id
        WHERE e.id = NEW.entry_id AND e.kind = 'card_dispute_won' AND c.purpose = 'topup'
            AND -NEW.amount = r.cents * 10000000
            AND NOT EXISTS (SELECT FROM posting l WHERE l.entry_id = e.id AND l.owner_id <> c.account_id)
        UNION ALL
        SELECT FROM entry e JOIN card_refund f ON f.id::text = e.business_id AND f.state = 'reversed'
            JOIN card_payment p ON p.id = f.payment_id JOIN checkout c ON c.id = p.checkout_id
        WHERE e.id = NEW.entry_id AND e.kind = 'card_dispute_won' AND c.purpose = 'topup'
            AND -NEW.amount = f.cents * 10000000
            AND NOT EXISTS (SELECT FROM posting l WHERE l.entry_id = e.id AND l.owner_id <> c.account_id))
    THEN
        RAISE EXCEPTION 'no card was charged for entry %', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_credit_is_paid';
    END IF;
    RETURN NULL;
END $$;
