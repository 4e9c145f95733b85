-- A slash is forfeited or won back, once. The lock keeps two ends apart.
CREATE OR REPLACE FUNCTION check_slash_end() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM lock_earnings(ARRAY[NEW.owner_id]);
    IF (SELECT count(*) FROM entry WHERE kind IN ('slash_forfeit', 'slash_appeal_won')
        AND business_id = (SELECT business_id FROM entry WHERE id = NEW.entry_id)) > 1
    THEN
        RAISE EXCEPTION 'the slash of entry % has another end', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_ends_once';
    END IF;
    RETURN NULL;
END $$;
