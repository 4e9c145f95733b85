-- Of a payment at most what was paid is reversed, and at most what is left is refunded. The
-- card's owner may dispute what was refunded: the reversal is kept then, and both are more
-- than the payment together. The lock on the payment keeps two returns apart, and the sums
-- are of a statement that begins after the lock is had.
CREATE OR REPLACE FUNCTION check_card_returns() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_back record;
BEGIN
    PERFORM FROM card_payment WHERE id = NEW.payment_id FOR UPDATE;
    SELECT cents, reversed, refunded INTO v_back FROM card_payment_back WHERE payment_id = NEW.payment_id;
    IF v_back.reversed > v_back.cents OR TG_TABLE_NAME = 'card_refund' AND v_back.reversed + v_back.refunded > v_back.cents
        AND EXISTS (SELECT FROM card_refund WHERE id::text = NEW.id::text AND state <> 'reversed')
    THEN
        RAISE EXCEPTION 'more than % cents would go back of payment %', v_back.cents, NEW.payment_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_returns_within_payment';
    END IF;
    RETURN NULL;
END $$;
