-- What a card did not take is owed again: an entry is that of a failed attempt, and gives back
-- what was paid by card for the attempt, to the same provider.
CREATE OR REPLACE FUNCTION check_failed_refund() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM entry e JOIN card_refund_failure x ON x.entry_id = e.id
            JOIN entry paid ON paid.kind = 'collateral_refund_paid' AND paid.business_id = e.business_id
            JOIN posting p ON p.entry_id = paid.id AND p.account_kind = 'l:provider:collateral_refund_pending'
            JOIN posting c ON c.entry_id = paid.id AND c.account_kind = 'a:card_clearing'
        WHERE e.id = NEW.entry_id AND e.business_id = refund_key(x.refund_id, x.attempt)
            AND (p.owner_id, p.amount) = (NEW.owner_id, -NEW.amount))
    THEN
        RAISE EXCEPTION 'entry % gives back no failed refund', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'collateral_refund_fails';
    END IF;
    RETURN NULL;
END $$;
