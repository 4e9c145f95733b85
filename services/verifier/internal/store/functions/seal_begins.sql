-- A seal is of a day that is over, has the day's pieces, and is linked to the seal before
-- it as pieces are to each other. Nobody can add a piece of that day meanwhile.
CREATE OR REPLACE FUNCTION seal_begins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_last verifier.seal%ROWTYPE;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('verifier.seal'), 0);
    NEW.sealed_at := clock_timestamp();
    SELECT * INTO v_last FROM verifier.seal s ORDER BY s.day DESC LIMIT 1;
    IF NEW.day >= (NEW.sealed_at AT TIME ZONE 'UTC')::date THEN
        RAISE EXCEPTION 'a day is sealed when it is over' USING ERRCODE = 'check_violation';
    ELSIF NEW.day <= v_last.day THEN
        RAISE EXCEPTION 'days are sealed in order' USING ERRCODE = 'check_violation';
    ELSIF EXISTS (SELECT FROM verifier.evidence v WHERE v.day < NEW.day AND v.day > coalesce(v_last.day, '-infinity'))
    THEN
        RAISE EXCEPTION 'no day with evidence is left out' USING ERRCODE = 'check_violation';
    ELSIF NEW.pieces <> (SELECT count(*) FROM verifier.evidence v WHERE v.day = NEW.day) THEN
        RAISE EXCEPTION 'a seal has every piece of its day' USING ERRCODE = 'check_violation';
    ELSIF NEW.link <> sha256(convert_to('svc evidence link v1 ', 'UTF8')
        || coalesce(v_last.link, decode(repeat('00', 32), 'hex')) || NEW.root)
    THEN
        RAISE EXCEPTION 'a seal is linked to the one before' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
