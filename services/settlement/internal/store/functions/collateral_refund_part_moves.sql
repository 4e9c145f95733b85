-- A part of a refund changes by a transition of collateral_refund_transition alone. What it pays stays. A payment by
-- card is a part once the refund is being paid, and a position is done when it is empty. What its card did not take is
-- on its way back again with a later attempt.
CREATE OR REPLACE FUNCTION collateral_refund_part_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_refund record;
BEGIN
    SELECT * INTO v_refund FROM collateral_refund WHERE refund_id = NEW.refund_id;
    IF TG_OP = 'INSERT' THEN
        IF (NEW.state, v_refund.state) IS DISTINCT FROM
            (CASE WHEN NEW.chain_id IS NULL THEN 'opened' ELSE 'asked' END,
             CASE WHEN NEW.chain_id IS NULL THEN 'paying' ELSE 'asked' END)
        THEN
            RAISE EXCEPTION 'a part of a refund begins with it' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.part_id, OLD.refund_id, OLD.chain_id, OLD.depositor, OLD.checkout_id, OLD.cents)
        IS DISTINCT FROM (NEW.part_id, NEW.refund_id, NEW.chain_id, NEW.depositor, NEW.checkout_id, NEW.cents)
        OR OLD.asked_entry IS NOT NULL AND NEW.asked_entry IS DISTINCT FROM OLD.asked_entry
        OR NEW.card_attempt < OLD.card_attempt
        OR OLD.bank_ref IS NOT NULL AND (NEW.bank_actor, NEW.bank_ref) IS DISTINCT FROM (OLD.bank_actor, OLD.bank_ref)
    THEN
        RAISE EXCEPTION 'what a part of a refund says stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.state <> OLD.state AND NOT EXISTS (SELECT FROM collateral_refund_transition t
        WHERE t.of = 'part' AND t.from_state = OLD.state AND t.to_state = NEW.state)
    THEN
        RAISE EXCEPTION 'a part of a refund does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    ELSIF OLD.state IN ('card', 'done') AND NEW.state = 'posted' AND NEW.card_attempt <= OLD.card_attempt THEN
        RAISE EXCEPTION 'a payment is not on its way back again by the same attempt' USING ERRCODE = 'check_violation';
    ELSIF NEW.chain_id IS NOT NULL AND NEW.state = 'done' AND OLD.state <> 'done' AND EXISTS (SELECT FROM position p
        WHERE p.chain_id = NEW.chain_id AND p.provider_id = v_refund.provider_id AND p.depositor = NEW.depositor
            AND p.free + p.escrow > 0)
    THEN
        RAISE EXCEPTION 'a position is refunded when it is empty' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
