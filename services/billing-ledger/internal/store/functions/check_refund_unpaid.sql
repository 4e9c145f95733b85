-- A refund is not paid and reversed. What was paid for an attempt that failed is owed again. The lock keeps the books from paying it meanwhile.
CREATE OR REPLACE FUNCTION check_refund_unpaid() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM lock_earnings(ARRAY(SELECT provider_id FROM card_payment_back WHERE payment_id = NEW.payment_id));
    IF EXISTS (SELECT FROM entry WHERE kind = 'collateral_refund_paid' AND business_id = refund_key(NEW.id, NEW.attempt)) THEN
        RAISE EXCEPTION 'refund % is paid', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_refund_is_unpaid';
    END IF;
    RETURN NULL;
END $$;
