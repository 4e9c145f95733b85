-- A run goes on by one revision at a time and ends once.
CREATE OR REPLACE FUNCTION benchmark_run_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'running' OR NEW.revision <> 1 THEN
            RAISE EXCEPTION 'a run begins as running' USING ERRCODE = 'check_violation';
        END IF;
        NEW.started_at := clock_timestamp();
        RETURN NEW;
    ELSIF (NEW.run_id, NEW.provider_id, NEW.model_id, NEW.basis, NEW.started_at) IS DISTINCT FROM
          (OLD.run_id, OLD.provider_id, OLD.model_id, OLD.basis, OLD.started_at)
    THEN
        RAISE EXCEPTION 'what a run is of stays' USING ERRCODE = 'check_violation';
    ELSIF OLD.state <> 'running' THEN
        RAISE EXCEPTION 'a run ends once' USING ERRCODE = 'check_violation';
    ELSIF NEW.revision <> OLD.revision + 1 THEN
        RAISE EXCEPTION 'revision % does not follow %', NEW.revision, OLD.revision USING ERRCODE = 'check_violation';
    ELSIF NEW.ended_at > clock_timestamp() THEN
        RAISE EXCEPTION 'a run does not end ahead of time' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
