-- A refund changes by a transition of collateral_refund_transition alone. It is paid once it is due and nothing keeps
-- it, and ends when each of its parts has.
CREATE OR REPLACE FUNCTION collateral_refund_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF (OLD.refund_id, OLD.provider_id, OLD.asked_at, OLD.due_at, OLD.previous_at)
        IS DISTINCT FROM (NEW.refund_id, NEW.provider_id, NEW.asked_at, NEW.due_at, NEW.previous_at)
    THEN
        RAISE EXCEPTION 'what a refund says stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.state = OLD.state THEN
        IF (OLD.paying_at, OLD.ended_at) IS DISTINCT FROM (NEW.paying_at, NEW.ended_at) THEN
            RAISE EXCEPTION 'the times of a refund stay' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    ELSIF NOT EXISTS (SELECT FROM collateral_refund_transition t
        WHERE t.of = 'refund' AND t.from_state = OLD.state AND t.to_state = NEW.state)
    THEN
        RAISE EXCEPTION 'a refund does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    ELSIF greatest(NEW.paying_at, NEW.ended_at) > clock_timestamp() THEN
        RAISE EXCEPTION 'a refund does not change ahead of time' USING ERRCODE = 'check_violation';
    ELSIF NEW.state = 'paying' AND refund_blocker(NEW.provider_id) <> '' THEN
        RAISE EXCEPTION 'a refund is not paid beside %', refund_blocker(NEW.provider_id)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'collateral_refund_blocked', TABLE = 'collateral_refund';
    ELSIF NEW.state = 'paid' AND EXISTS (SELECT FROM collateral_refund_part p
        WHERE p.refund_id = NEW.refund_id AND p.state NOT IN ('done', 'cancelled', 'reversed'))
    THEN
        RAISE EXCEPTION 'a refund is paid when each of its parts has ended' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
