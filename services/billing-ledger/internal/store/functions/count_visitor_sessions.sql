-- Sessions of visitors are counted, so that visitor_session_count_bounds bounds them.
CREATE OR REPLACE FUNCTION count_visitor_sessions() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_changed integer := (SELECT count(*) FROM changed);
BEGIN
    IF v_changed > 0 THEN
        UPDATE visitor_session_count SET live = live + CASE TG_OP WHEN 'INSERT' THEN v_changed ELSE -v_changed END;
    END IF;
    RETURN NULL;
END $$;
