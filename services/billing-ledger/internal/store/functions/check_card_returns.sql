-- Of a payment goes back at most what was paid. The lock on the payment keeps two returns
-- apart, and the sum is of a statement that begins after the lock is had.
CREATE OR REPLACE FUNCTION check_card_returns() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_paid bigint;
BEGIN
    SELECT cents INTO v_paid FROM card_payment WHERE id = NEW.payment_id FOR UPDATE;
    IF (SELECT coalesce(sum(cents), 0) FROM (
            SELECT cents FROM card_refund WHERE payment_id = NEW.payment_id AND state <> 'reversed'
            UNION ALL SELECT cents FROM card_reversal WHERE payment_id = NEW.payment_id) back) > v_paid
    THEN
        RAISE EXCEPTION 'more than % cents would go back of payment %', v_paid, NEW.payment_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_returns_within_payment';
    END IF;
    RETURN NULL;
END $$;
