-- The first day whose requests are kept whole.
CREATE OR REPLACE FUNCTION kept_since() RETURNS date LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    SELECT coalesce((SELECT max(day) + 1 FROM cleared_day), '-infinity')
$$;
