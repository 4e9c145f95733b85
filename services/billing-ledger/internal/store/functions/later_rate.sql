-- The later of two times at which a rate is full. A time that is further ahead than any limit reaches
-- is of another clock, and does not count.
CREATE OR REPLACE FUNCTION later_rate(p_known timestamptz, p_new timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_known < now() + interval '2 minutes' THEN greatest(p_known, p_new) ELSE p_new END
$$;
