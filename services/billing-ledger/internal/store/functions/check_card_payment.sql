-- A payment is that of a paid checkout, to the cent. One of an invoice is that of a plan.
CREATE OR REPLACE FUNCTION check_card_payment() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM checkout WHERE id = NEW.checkout_id AND state = 'paid' AND cents + fee_cents = NEW.cents
        AND (purpose = 'plan') = (NEW.invoice_id IS NOT NULL)) THEN
        RAISE EXCEPTION 'payment % is of no paid checkout with its amount', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_payment_is_paid';
    END IF;
    RETURN NULL;
END $$;
