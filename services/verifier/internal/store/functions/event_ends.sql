-- An event is forgotten when the sealed bytes of its evidence are cleared. The last event of
-- an offer is kept, because the next one follows it, and so is the last that left no evidence
-- M, because a verdict's evidence begins behind it. Kinds that are rare are kept: what
-- operators and settlement said, and runs of benchmarks.
CREATE OR REPLACE FUNCTION event_ends() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF OLD.kind NOT IN ('judged', 'paired', 'ticked')
        OR NOT EXISTS (
            SELECT FROM evidence v
            WHERE (v.provider_id, v.model_id, v.number) = (OLD.provider_id, OLD.model_id, OLD.number)
                AND v.sealed IS NULL)
        OR NOT EXISTS (
            SELECT FROM event e
            WHERE e.provider_id = OLD.provider_id AND e.model_id = OLD.model_id AND e.number > OLD.number
                AND (OLD.m > 0 OR e.m = 0))
    THEN
        RAISE EXCEPTION 'rows of event are kept as they are' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
