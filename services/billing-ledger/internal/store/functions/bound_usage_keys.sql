-- Keys stay for good, so a hub may add only so many. It has one at each start and
-- daily: 300 within 24 hours are more than a hub uses that starts again every five
-- minutes, and less than 50 KB. The bound slides, so it is no hub's for longer
-- than it overdoes it. A key that stands already is not inserted, and not counted.
CREATE OR REPLACE FUNCTION bound_usage_keys() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    c_max CONSTANT integer := 300;
BEGIN
    -- Others that add keys of this hub wait here, and then count this one.
    PERFORM pg_advisory_xact_lock(hashtext('usage_key'), hashtext(NEW.hub_id));
    IF (SELECT count(*) FROM usage_key WHERE hub_id = NEW.hub_id AND created_at > now() - interval '1 day') > c_max THEN
        RAISE EXCEPTION 'a hub has at most % new keys within a day', c_max
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_key_bound', TABLE = 'usage_key';
    END IF;
    RETURN NULL;
END $$;
