-- A penalty changes by a transition of penalty_transition alone, one revision at a time.
-- What it says stays. A time that a change brings is not ahead of the database's clock.
CREATE OR REPLACE FUNCTION penalty_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF (OLD.penalty_id, OLD.provider_id, OLD.model_id, OLD.kind, OLD.share_basis_points, OLD.removes, OLD.summary,
        OLD.evidence_hash, OLD.family, OLD.opened_at, OLD.appeal_until)
        IS DISTINCT FROM
       (NEW.penalty_id, NEW.provider_id, NEW.model_id, NEW.kind, NEW.share_basis_points, NEW.removes, NEW.summary,
        NEW.evidence_hash, NEW.family, NEW.opened_at, NEW.appeal_until)
    THEN
        RAISE EXCEPTION 'what a penalty says stays' USING ERRCODE = 'check_violation';
    ELSIF NOT EXISTS (SELECT FROM penalty_transition t WHERE t.from_state = OLD.state AND t.to_state = NEW.state) THEN
        RAISE EXCEPTION 'a penalty does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    ELSIF NEW.revision <> OLD.revision + 1 THEN
        RAISE EXCEPTION 'revision % does not follow %', NEW.revision, OLD.revision USING ERRCODE = 'check_violation';
    ELSIF (NEW.appeal_text, NEW.appealed_at) IS DISTINCT FROM (OLD.appeal_text, OLD.appealed_at)
        AND NEW.state <> 'appealed'
    THEN
        RAISE EXCEPTION 'an appeal stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.appealed_at >= NEW.appeal_until AND NOT NEW.appealed_on_chain THEN
        RAISE EXCEPTION 'an appeal is in time'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'penalty_appeal_in_time', TABLE = 'penalty';
    ELSIF NEW.appealed_on_chain <> OLD.appealed_on_chain AND NEW.state <> 'appealed' THEN
        RAISE EXCEPTION 'an appeal stays' USING ERRCODE = 'check_violation';
    ELSIF (NEW.resolution, NEW.resolved_at) IS DISTINCT FROM (OLD.resolution, OLD.resolved_at)
        AND NEW.state NOT IN ('upheld', 'reversed')
    THEN
        RAISE EXCEPTION 'a resolution stays' USING ERRCODE = 'check_violation';
    ELSIF greatest(NEW.appealed_at, NEW.resolved_at, NEW.executed_at) > clock_timestamp() THEN
        RAISE EXCEPTION 'a penalty does not change ahead of time' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
