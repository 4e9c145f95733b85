-- The smallest id that a request of a day can have.
CREATE OR REPLACE FUNCTION first_request_of(p_day date) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((p_day - date '1970-01-01')::bigint * 86400000), 12, '0') || repeat('0', 20))::uuid
$$;
