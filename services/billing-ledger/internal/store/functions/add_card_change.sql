-- A change has the next number. Whoever adds one waits here for those who added before to
-- commit, so that nothing appears behind a number that was read.
CREATE OR REPLACE FUNCTION add_card_change() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('card_change'));
    SELECT coalesce(max(number), 0) + 1 INTO NEW.number FROM card_change;
    RETURN NEW;
END $$;
