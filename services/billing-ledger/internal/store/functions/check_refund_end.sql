-- A refund of collateral ends once, with what was asked for: the same provider and the same
-- amount. It is paid as the refund of the card payment ended, under the key of the attempt that
-- is the last, and undone where that was reversed. What was paid for an attempt that failed is no
-- end. The lock keeps two ends apart, and what is read is of statements that begin after the lock
-- is had. A cent is 10,000,000 nano-USD.
CREATE OR REPLACE FUNCTION check_refund_end() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_key text;
    v_refund text;
BEGIN
    PERFORM lock_earnings(ARRAY[NEW.owner_id]);
    SELECT business_id, split_part(business_id, '/', 1) INTO v_key, v_refund FROM entry WHERE id = NEW.entry_id;
    IF NOT EXISTS (
        SELECT FROM entry asked JOIN posting p ON p.entry_id = asked.id
            AND p.account_kind = 'l:provider:collateral_refund_pending'
        WHERE asked.kind = 'collateral_refund' AND asked.business_id = v_refund
            AND (p.owner_id, p.amount) = (NEW.owner_id, -NEW.amount)
            AND NOT EXISTS (SELECT FROM entry undone WHERE undone.reverses = asked.id))
    OR NOT EXISTS (
        SELECT FROM card_refund f JOIN card_payment_back b ON b.payment_id = f.payment_id
        WHERE f.id::text = v_refund AND b.provider_id = NEW.owner_id AND f.cents * 10000000 = -NEW.amount
            AND v_key = CASE NEW.entry_kind WHEN 'collateral_refund_paid' THEN refund_key(f.id, f.attempt) ELSE v_refund END
            AND f.state = CASE WHEN NEW.entry_kind = 'collateral_refund_undone' THEN 'reversed'
                WHEN EXISTS (SELECT FROM posting WHERE entry_id = NEW.entry_id AND account_kind = 'a:bank') THEN 'from_bank'
                ELSE 'by_card' END)
    THEN
        RAISE EXCEPTION 'entry % ends no refund of the provider and the amount', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'collateral_refund_ends';
    END IF;
    IF (SELECT count(*) FILTER (WHERE e.kind <> 'collateral_refund_failed')
            - count(*) FILTER (WHERE e.kind = 'collateral_refund_failed')
        FROM generate_series(1, 4) AS n JOIN entry e ON e.business_id = refund_key(v_refund::uuid, n)
            AND e.kind IN ('collateral_refund_paid', 'collateral_refund_undone', 'collateral_refund_failed')) > 1
    THEN
        RAISE EXCEPTION 'refund % has another end', v_refund
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_ends_once';
    END IF;
    RETURN NULL;
END $$;
