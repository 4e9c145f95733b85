-- Who lifts a block has it marked. This runs as the owner, because nobody else writes marks.
CREATE OR REPLACE FUNCTION batch_unblock_marks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
BEGIN
    UPDATE batch_block SET lifted = true WHERE day = NEW.day AND provider_id = NEW.provider_id AND cause = NEW.cause;
    RETURN NULL;
END $$;
