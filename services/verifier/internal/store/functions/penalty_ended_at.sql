-- When the penalty of a verdict ended, infinity while it has not. A verdict that waited for
-- an operator ends with the verdict by which the operator agreed.
CREATE OR REPLACE FUNCTION penalty_ended_at(p_verdict uuid) RETURNS timestamptz LANGUAGE sql STABLE
SET search_path = verifier, pg_temp AS $$
    SELECT coalesce(max(e.ended_at), 'infinity') FROM penalty_end e
    WHERE e.verdict_id = p_verdict OR e.verdict_id IN (
        SELECT c.verdict_id FROM verdict c WHERE c.of_verdict = p_verdict AND c.share_basis_points > 0
    )
$$;
