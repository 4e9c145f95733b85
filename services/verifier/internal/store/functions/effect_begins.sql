-- An effect is of a verdict and has its id elsewhere; a provider is reinstated by the id of
-- the verdict that removed it.
CREATE OR REPLACE FUNCTION effect_begins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v verifier.verdict%ROWTYPE;
BEGIN
    SELECT * INTO v FROM verifier.verdict x WHERE x.verdict_id = NEW.verdict_id;
    IF NOT FOUND OR NEW.subject <> (CASE NEW.kind WHEN 'reinstate' THEN v.of_verdict ELSE v.verdict_id END) THEN
        RAISE EXCEPTION 'an effect is about its verdict''s penalty' USING ERRCODE = 'check_violation';
    ELSIF NEW.state <> 'pending' OR NEW.tries <> 0 OR NEW.replica IS NOT NULL THEN
        RAISE EXCEPTION 'an effect begins as pending' USING ERRCODE = 'check_violation';
    END IF;
    NEW.provider_id := v.provider_id;
    NEW.created_at := clock_timestamp();
    NEW.next_at := NEW.created_at;
    RETURN NEW;
END $$;
