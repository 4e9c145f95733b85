-- An effect is done once. Before that it is only taken and given back, under a lease of 5
-- minutes at most, and in the order of its provider's effects.
CREATE OR REPLACE FUNCTION effect_moves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF (NEW.effect_id, NEW.verdict_id, NEW.provider_id, NEW.kind, NEW.subject, NEW.revision,
        NEW.created_at) IS DISTINCT FROM
       (OLD.effect_id, OLD.verdict_id, OLD.provider_id, OLD.kind, OLD.subject, OLD.revision, OLD.created_at)
    THEN
        RAISE EXCEPTION 'what an effect says stays' USING ERRCODE = 'check_violation';
    ELSIF OLD.state = 'done' OR OLD.state = 'refused' AND NEW.state <> 'pending' THEN
        RAISE EXCEPTION 'an effect is % once', OLD.state USING ERRCODE = 'check_violation';
    ELSIF NEW.replica IS NOT NULL
        AND (OLD.leased_until > v_now OR NEW.leased_until > v_now + interval '5 minutes') THEN
        RAISE EXCEPTION 'a lease is of 5 minutes at most, and nobody else''s meanwhile'
            USING ERRCODE = 'check_violation';
    ELSIF NEW.replica IS NOT NULL AND EXISTS (
        SELECT FROM verifier.effect e
        WHERE e.provider_id = NEW.provider_id AND e.effect_id < NEW.effect_id AND e.state = 'pending'
    ) THEN
        RAISE EXCEPTION 'effects of a provider go in order' USING ERRCODE = 'check_violation';
    ELSIF NEW.tries - OLD.tries <> (NEW.replica IS NOT NULL)::integer THEN
        RAISE EXCEPTION 'a try is counted when an effect is taken' USING ERRCODE = 'check_violation';
    ELSIF NEW.ended_at > v_now THEN
        RAISE EXCEPTION 'an effect does not end ahead of time' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
