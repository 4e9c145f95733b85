-- keep keeps an answer, and says in which slot, or why not. It is the only way in.
-- Whoever keeps or empties holds one lock, so the quotas are exact whatever runs
-- at the same time; nobody who holds a table of this schema waits for that lock.
-- What could not be emptied counts, because it takes up disk. A row costs 256
-- bytes beside what is sealed. What is kept of those who never paid is counted too.
--
-- Runs as the owner, because the application's role may neither write nor empty
-- these tables.
CREATE OR REPLACE FUNCTION kept.keep(p_account uuid, p_request uuid, p_sealed bytea, p_of_account bigint, p_in_all bigint,
    OUT o_slot smallint, OUT o_refusal text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_cost bigint := octet_length(p_sealed) + 256;
    v_hour bigint;
    v_slot smallint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('kept.answer'));
    v_hour := floor(extract(epoch FROM clock_timestamp()) / 3600);
    v_slot := v_hour % 26;
    -- There is something to do only if nobody has swept for a while.
    PERFORM empty_slots(v_hour, '1ms');
    o_refusal := refusal(p_account, v_cost, p_of_account, p_in_all, 0);
    IF o_refusal IS NULL AND EXISTS (SELECT FROM hour WHERE slot = v_slot AND hour <> v_hour) THEN
        -- By an hour that is read, or by one to come if the clock was set back.
        o_refusal := 'slot_taken';
    END IF;
    IF o_refusal IS NOT NULL THEN
        RETURN;
    END IF;
    INSERT INTO answer (slot, request_id, account_id, sealed) VALUES (v_slot, p_request, p_account, p_sealed);
    INSERT INTO tally AS t (account_id, slot, bytes) VALUES (p_account, v_slot, v_cost)
        ON CONFLICT (account_id, slot) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    INSERT INTO hour AS h (slot, hour, bytes, unpaid) VALUES (v_slot, v_hour, v_cost, CASE WHEN has_paid(p_account) THEN 0 ELSE v_cost END)
        ON CONFLICT (slot) DO UPDATE SET bytes = h.bytes + excluded.bytes, unpaid = h.unpaid + excluded.unpaid;
    o_slot := v_slot;
END $$;

REVOKE ALL ON FUNCTION kept.keep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kept.keep TO svc_billing;
