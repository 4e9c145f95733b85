-- A piece is the next link of its offer's chain: link = SHA-256("svc evidence link v1 " ‖
-- the link before ‖ leaf), as package archive has it, from 32 zero bytes on.
--
-- Its day is the UTC day of the clock, or the day after the last seal where the clock was
-- set back, so that no piece is missing from a root. Whoever seals a day holds the lock
-- that is shared here, and so waits for the pieces whose day was read before.
CREATE OR REPLACE FUNCTION evidence_begins() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_before bytea := decode(repeat('00', 32), 'hex');
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('verifier.seal'), 0);
    NEW.recorded_at := clock_timestamp();
    NEW.day := greatest((NEW.recorded_at AT TIME ZONE 'UTC')::date, (SELECT max(s.day) + 1 FROM verifier.seal s));
    IF NEW.number > 1 THEN
        SELECT v.link INTO v_before FROM verifier.evidence v
            WHERE (v.provider_id, v.model_id, v.number) = (NEW.provider_id, NEW.model_id, NEW.number - 1);
    END IF;
    IF NEW.sealed IS NULL THEN
        RAISE EXCEPTION 'evidence begins with its sealed bytes' USING ERRCODE = 'check_violation';
    ELSIF NEW.link IS DISTINCT FROM sha256(convert_to('svc evidence link v1 ', 'UTF8') || v_before || NEW.leaf) THEN
        RAISE EXCEPTION 'a piece of evidence is linked to the one before' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
