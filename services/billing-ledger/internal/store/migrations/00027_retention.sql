-- What a request leaves beside its settled line (its hold, the accounts of
-- gateways and of providers, its review) is kept for a number of days and then
-- deleted. The line, entries and seals stay for ever.
--
-- A request belongs to the UTC day inside its id, a UUID of version 7, so the
-- requests of a day are one range of the primary keys: they are deleted in the
-- order in which they came, and leave whole pages empty. Partitions would save
-- the deletes, but each statement on the request's path would lock and plan for
-- one partition a day.

-- +goose Up

-- The days of which nothing but settled lines is promised any more, without gaps.
CREATE TABLE cleared_day (
    day        date PRIMARY KEY REFERENCES seal,
    cleared_at timestamptz NOT NULL DEFAULT now()
);

-- The smallest id that a request of a day can have.
-- +goose StatementBegin
CREATE FUNCTION first_request_of(p_day date) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((p_day - date '1970-01-01')::bigint * 86400000), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- The first day whose requests are kept whole, and the smallest id of them.
-- +goose StatementBegin
CREATE FUNCTION kept_since() RETURNS date LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    SELECT coalesce((SELECT max(day) + 1 FROM cleared_day), '-infinity')
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION kept_from() RETURNS uuid LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    SELECT coalesce((SELECT first_request_of(max(day) + 1) FROM cleared_day), '00000000-0000-0000-0000-000000000000')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION refuse_uncleared() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM gone WHERE request_id >= kept_from()) THEN
        RAISE EXCEPTION 'a row of % may not be deleted before its day is cleared', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER hold_is_kept AFTER DELETE ON hold REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER witness_is_kept AFTER DELETE ON witness REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER renewal_is_kept AFTER DELETE ON renewal REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER orphan_review_is_kept AFTER DELETE ON orphan_review REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
DROP TRIGGER receipt_stands ON receipt;
CREATE TRIGGER receipt_stands BEFORE UPDATE ON receipt
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER receipt_is_kept AFTER DELETE ON receipt REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();

-- drop_cleared clears the next day if it is due, deletes what up to p_limit
-- requests of cleared days have left, and returns of how many requests it did.
-- A day is due when it is sealed, p_keep whole days have passed since its end,
-- none of its holds is open and no review of its requests goes on. Who calls
-- while another does so has nothing to do. It runs as the owner, because the
-- application role may not delete any of these rows. Its plans are kept for as
-- long as the connection lives: a plan from when a table was small would
-- otherwise read all of the table later.
-- +goose StatementBegin
CREATE FUNCTION drop_cleared(p_keep integer, p_limit integer) RETURNS integer
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
        DELETE FROM receipt WHERE request_id = ANY (v_requests);
        DELETE FROM renewal WHERE request_id = ANY (v_requests);
        DELETE FROM witness WHERE request_id = ANY (v_requests);
        DELETE FROM orphan_review WHERE request_id = ANY (v_requests);
        DELETE FROM hold WHERE request_id = ANY (v_requests);
    END IF;
    RETURN cardinality(v_requests);
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION drop_cleared(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_cleared(integer, integer) TO svc_billing;
GRANT SELECT ON cleared_day TO svc_billing;
