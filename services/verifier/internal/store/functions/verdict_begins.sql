-- A verdict is of the event that its transaction added. Its evidence begins behind the last
-- event that left no evidence M; that of a verdict about another, with the other's if that
-- is earlier. Nothing is taken while penalties are off: who turns them off waits for the
-- verdicts under way.
CREATE OR REPLACE FUNCTION verdict_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
DECLARE
    v_on    boolean;
    v_other verdict%ROWTYPE;
BEGIN
    IF NEW.share_basis_points > 0 THEN
        SELECT s.enabled INTO v_on FROM setting s WHERE s.name = 'penalties' FOR SHARE;
        IF NOT coalesce(v_on, false) THEN
            RAISE EXCEPTION 'penalties are off'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'verdict_penalties_on';
        END IF;
    END IF;
    IF NOT EXISTS (
        SELECT FROM event e WHERE (e.provider_id, e.model_id, e.number, e.at) = (NEW.provider_id, NEW.model_id,
            NEW.number, NEW.at)
    ) THEN
        RAISE EXCEPTION 'a verdict has the time of its event' USING ERRCODE = 'check_violation';
    END IF;
    SELECT coalesce(max(e.number), 0) + 1 INTO NEW.first_number FROM event e
        WHERE e.provider_id = NEW.provider_id AND e.model_id = NEW.model_id AND e.number < NEW.number AND e.m = 0;
    IF NEW.of_verdict IS NOT NULL THEN
        SELECT * INTO v_other FROM verdict v WHERE v.verdict_id = NEW.of_verdict;
        IF NOT FOUND OR (v_other.provider_id, v_other.model_id) <> (NEW.provider_id, NEW.model_id)
            OR v_other.share_basis_points = 0 AND NOT v_other.needs_operator
        THEN
            RAISE EXCEPTION 'a verdict is about a penalty of its offer' USING ERRCODE = 'check_violation';
        END IF;
        NEW.first_number := least(NEW.first_number, v_other.first_number);
    END IF;
    RETURN NEW;
END $$;
