-- A refund is tried again after an attempt of it that failed, and each failed attempt is followed
-- by another. If the books had paid the attempt, the same transaction makes that owed again. The
-- lock keeps the books from paying it meanwhile.
CREATE OR REPLACE FUNCTION check_refund_failure() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_refund uuid;
    v_attempt integer;
BEGIN
    IF TG_TABLE_NAME = 'card_refund' THEN
        v_refund := NEW.id;
        v_attempt := OLD.attempt;
    ELSE
        v_refund := NEW.refund_id;
        v_attempt := NEW.attempt;
    END IF;
    PERFORM lock_earnings(ARRAY(SELECT b.provider_id FROM card_payment_back b
        JOIN card_refund f ON f.payment_id = b.payment_id WHERE f.id = v_refund));
    IF NOT EXISTS (SELECT FROM card_refund f JOIN card_refund_failure x ON x.refund_id = f.id
        WHERE f.id = v_refund AND x.attempt = v_attempt AND f.attempt > v_attempt
            AND (x.entry_id IS NOT NULL) = EXISTS (SELECT FROM entry WHERE kind = 'collateral_refund_paid'
                AND business_id = refund_key(v_refund, v_attempt)))
    THEN
        RAISE EXCEPTION 'attempt % of refund % has not failed so', v_attempt, v_refund
            USING ERRCODE = 'check_violation', CONSTRAINT = 'card_refund_failed';
    END IF;
    RETURN NULL;
END $$;
