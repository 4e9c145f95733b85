-- A probe changes by a transition of probe_transition alone, and what it asks stays. Taking
-- it counts a try and leases it for 15 minutes at most. A lease that is not over is nobody
-- else's.
CREATE OR REPLACE FUNCTION probe_moves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    IF (OLD.probe_id, OLD.provider_id, OLD.model_id, OLD.kind, OLD.flow, OLD.purpose, OLD.run_id, OLD.shape,
        OLD.cost_nano_usd,
        OLD.plan, OLD.due_at, OLD.created_at)
        IS DISTINCT FROM
       (NEW.probe_id, NEW.provider_id, NEW.model_id, NEW.kind, NEW.flow, NEW.purpose, NEW.run_id, NEW.shape,
           NEW.cost_nano_usd,
        NEW.plan, NEW.due_at, NEW.created_at)
    THEN
        RAISE EXCEPTION 'what a probe asks stays' USING ERRCODE = 'check_violation';
    ELSIF NOT EXISTS (
        SELECT FROM verifier.probe_transition t WHERE t.from_state = OLD.state AND t.to_state = NEW.state
    ) THEN
        RAISE EXCEPTION 'a probe does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    ELSIF NEW.state = 'leased' AND OLD.state = 'leased' AND OLD.leased_until > v_now THEN
        RAISE EXCEPTION 'a lease that is not over is nobody else''s' USING ERRCODE = 'check_violation';
    ELSIF NEW.state = 'leased' AND OLD.state = 'queued' AND OLD.next_at > v_now THEN
        RAISE EXCEPTION 'a probe is not taken before it is due' USING ERRCODE = 'check_violation';
    ELSIF NEW.state = 'leased'
        AND (NEW.leased_until <= v_now OR NEW.leased_until > v_now + interval '15 minutes') THEN
        RAISE EXCEPTION 'a lease is of 15 minutes at most' USING ERRCODE = 'check_violation';
    ELSIF NEW.tries <> OLD.tries + (NEW.state = 'leased')::integer
        -- A probe that was not sent gives its try back.
        AND NOT (NEW.state = 'queued' AND NEW.tries = OLD.tries - 1)
    THEN
        RAISE EXCEPTION 'a try is counted when a probe is taken' USING ERRCODE = 'check_violation';
    ELSIF NEW.ended_at > v_now THEN
        RAISE EXCEPTION 'a probe does not end ahead of time' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
