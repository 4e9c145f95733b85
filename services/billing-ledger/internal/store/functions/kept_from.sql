-- The smallest id of the requests that are kept whole.
CREATE OR REPLACE FUNCTION kept_from() RETURNS uuid LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    SELECT coalesce((SELECT first_request_of(max(day) + 1) FROM cleared_day), '00000000-0000-0000-0000-000000000000')
$$;
