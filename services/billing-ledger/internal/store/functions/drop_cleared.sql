-- drop_cleared clears the next day if it is due, deletes what up to p_limit
-- requests of cleared days have left, and returns of how many requests it did.
-- A day is due when it is sealed, p_keep whole days have passed since its end,
-- none of its holds is open and no review of its requests goes on. Who calls
-- while another does so has nothing to do. It runs as the owner, because the
-- application role may not delete any of these rows. Its plans are kept for as
-- long as the connection lives: a plan from when a table was small would
-- otherwise read all of the table later.
CREATE OR REPLACE FUNCTION drop_cleared(p_keep integer, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = billing, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_day      date;
    v_end      uuid;
    v_requests uuid[];
BEGIN
    -- Void attempts are kept for seven days, and receipts are taken meanwhile.
    IF p_keep < 8 OR p_limit NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'requests are kept for at least 8 days, and at most 10000 are deleted at once: % and % are out of range', p_keep, p_limit;
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtext('billing.drop_cleared')) THEN
        RETURN 0;
    END IF;
    v_day := coalesce((SELECT max(day) + 1 FROM cleared_day), (SELECT min(day) FROM seal));
    IF v_day + p_keep < (now() AT TIME ZONE 'UTC')::date AND EXISTS (SELECT FROM seal WHERE day = v_day) THEN
        v_end := first_request_of(v_day + 1);
        IF NOT EXISTS (SELECT FROM hold WHERE state = 'open' AND request_id < v_end)
            AND NOT EXISTS (SELECT FROM orphan_review WHERE next_at IS NOT NULL AND request_id < v_end)
        THEN
            INSERT INTO cleared_day (day) VALUES (v_day);
        END IF;
    END IF;
    v_end := kept_from();
    v_requests := ARRAY(SELECT h.request_id FROM hold h WHERE h.request_id < v_end AND h.state <> 'open'
        ORDER BY h.request_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    IF cardinality(v_requests) > 0 THEN
        DELETE FROM work_receipt WHERE request_id = ANY (v_requests);
        DELETE FROM renewal WHERE request_id = ANY (v_requests);
        DELETE FROM request_report WHERE request_id = ANY (v_requests);
        DELETE FROM orphan_review WHERE request_id = ANY (v_requests);
        DELETE FROM hold WHERE request_id = ANY (v_requests);
    END IF;
    RETURN cardinality(v_requests);
END $$;

REVOKE ALL ON FUNCTION drop_cleared FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_cleared TO svc_billing;
