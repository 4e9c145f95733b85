CREATE OR REPLACE FUNCTION words_fit(words text[], most integer) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT cardinality(words) <= most
       AND coalesce(bool_and(coalesce(w ~ '^[a-z0-9._-]{1,48}$', false)), true)
    FROM unnest(words) AS w
$$;
