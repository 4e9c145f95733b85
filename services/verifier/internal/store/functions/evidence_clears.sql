-- The sealed bytes of a piece are cleared once, 90 days after it was recorded; those of a
-- penalty not before 180 days after the penalty's end. Nothing else of it changes.
CREATE OR REPLACE FUNCTION evidence_clears() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF (NEW.piece_id, NEW.provider_id, NEW.model_id, NEW.number, NEW.day, NEW.recorded_at, NEW.plain_bytes,
        NEW.leaf, NEW.link)
        IS DISTINCT FROM
       (OLD.piece_id, OLD.provider_id, OLD.model_id, OLD.number, OLD.day, OLD.recorded_at, OLD.plain_bytes,
           OLD.leaf, OLD.link)
        OR OLD.sealed IS NULL OR NEW.sealed IS NOT NULL
    THEN
        RAISE EXCEPTION 'evidence is kept as it is' USING ERRCODE = 'restrict_violation';
    ELSIF OLD.recorded_at + interval '90 days' > v_now THEN
        RAISE EXCEPTION 'evidence is kept for 90 days' USING ERRCODE = 'restrict_violation';
    ELSIF EXISTS (
        SELECT FROM verifier.verdict v
        WHERE v.provider_id = OLD.provider_id AND v.model_id = OLD.model_id
            AND (v.share_basis_points > 0 OR v.needs_operator)
            AND OLD.number BETWEEN v.first_number AND v.number
            AND verifier.penalty_ended_at(v.verdict_id) + interval '180 days' > v_now
    ) THEN
        RAISE EXCEPTION 'evidence of a penalty is kept for 180 days after its end'
            USING ERRCODE = 'restrict_violation';
    END IF;
    NEW.cleared_at := v_now;
    RETURN NEW;
END $$;
