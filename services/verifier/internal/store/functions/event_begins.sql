-- Events of an offer follow each other without a gap, and not ahead of the clock or behind
-- the event before. The level moves as the ladder's table has it.
CREATE OR REPLACE FUNCTION event_begins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_last verifier.event%ROWTYPE;
BEGIN
    SELECT * INTO v_last FROM verifier.event e
        WHERE e.provider_id = NEW.provider_id AND e.model_id = NEW.model_id ORDER BY e.number DESC LIMIT 1;
    IF NEW.number <> coalesce(v_last.number, 0) + 1 THEN
        RAISE EXCEPTION 'event % does not follow %', NEW.number, coalesce(v_last.number, 0)
            USING ERRCODE = 'check_violation';
    ELSIF NEW.at < v_last.at OR NEW.at > greatest(clock_timestamp(), v_last.at) THEN
        RAISE EXCEPTION 'an event is not ahead of the clock or behind the last one' USING ERRCODE = 'check_violation';
    ELSIF NEW.level <> coalesce(v_last.level, 'normal')
        AND NOT EXISTS (SELECT FROM verifier.level_transition t
            WHERE t.from_level = coalesce(v_last.level, 'normal') AND t.to_level = NEW.level)
        -- Whatever takes evidence back leads to the beginning.
        AND NOT (NEW.level = 'normal' AND NEW.kind IN ('voided', 'penalty', 'operator'))
    THEN
        RAISE EXCEPTION 'a level does not go from % to %', coalesce(v_last.level, 'normal'), NEW.level
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
