-- A payout ends once, and with what was requested: the same provider and the same amount.
-- A request that was undone has no end. The lock keeps two ends apart, and what it reads is
-- of statements that begin after the lock is had.
CREATE OR REPLACE FUNCTION check_payout_end() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_payout text;
BEGIN
    PERFORM lock_earnings(ARRAY[NEW.owner_id]);
    SELECT business_id INTO v_payout FROM entry WHERE id = NEW.entry_id;
    IF NOT EXISTS (
        SELECT FROM entry asked JOIN posting p ON p.entry_id = asked.id AND p.account_kind = 'l:provider:payout_in_flight'
        WHERE asked.kind = 'payout_requested' AND asked.business_id = v_payout
            AND (p.owner_id, p.amount) = (NEW.owner_id, -NEW.amount)
            AND NOT EXISTS (SELECT FROM entry undone WHERE undone.reverses = asked.id))
    THEN
        RAISE EXCEPTION 'entry % ends no payout of the provider and the amount', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_ends_its_request';
    END IF;
    IF (SELECT count(*) FROM entry WHERE kind IN ('payout_confirmed', 'payout_failed') AND business_id = v_payout) > 1 THEN
        RAISE EXCEPTION 'payout % has another end', v_payout
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_ends_once';
    END IF;
    RETURN NULL;
END $$;
