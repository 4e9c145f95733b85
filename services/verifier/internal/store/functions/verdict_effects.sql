-- At the end of a transaction a verdict has its effects in the outbox, and no others.
CREATE OR REPLACE FUNCTION verdict_effects() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
DECLARE
    v_want text[] := array_remove(ARRAY[
        CASE WHEN NEW.removes THEN 'expel' END,
        CASE WHEN NEW.share_basis_points > 0 THEN 'open_penalty' END,
        CASE WHEN NEW.reinstates THEN 'reinstate' END,
        CASE WHEN NEW.kind = 'benchmark' THEN 'report_benchmark' END], NULL);
    v_got  text[];
BEGIN
    SELECT coalesce(array_agg(e.kind ORDER BY e.kind COLLATE "C"), '{}') INTO v_got FROM effect e
        WHERE e.verdict_id = NEW.verdict_id;
    IF v_got <> v_want THEN
        RAISE EXCEPTION 'a verdict with the effects % has %', v_want, v_got USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
