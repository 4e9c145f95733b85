-- A penalty ends once, by the database's clock. Only a verdict that takes something, or
-- waits for an operator's word, is one.
CREATE OR REPLACE FUNCTION penalty_end_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM verifier.verdict v WHERE v.verdict_id = NEW.verdict_id
            AND (v.share_basis_points > 0 OR v.needs_operator)
    ) THEN
        RAISE EXCEPTION 'what ends is a penalty' USING ERRCODE = 'check_violation';
    END IF;
    NEW.ended_at := clock_timestamp();
    RETURN NEW;
END $$;
