-- add_histograms adds two histograms of stats_sum: what fell into the same bucket. An empty one
-- has nothing, and null is no request.
CREATE OR REPLACE FUNCTION add_histograms(a integer[], b integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE SET search_path = billing, pg_temp AS $$
    SELECT CASE
        WHEN cardinality(a) = 0 THEN b
        WHEN cardinality(b) = 0 THEN a
        ELSE (SELECT array_agg(nullif(coalesce(u.x, 0) + coalesce(u.y, 0), 0) ORDER BY u.n)
            FROM unnest(a, b) WITH ORDINALITY AS u (x, y, n))
    END
$$;
