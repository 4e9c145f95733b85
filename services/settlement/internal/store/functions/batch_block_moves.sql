-- A block is kept as it is. Once it is lifted it is marked.
CREATE OR REPLACE FUNCTION batch_block_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_marked batch_block := OLD;
BEGIN
    v_marked.lifted := true;
    IF OLD.lifted OR NEW IS DISTINCT FROM v_marked OR NOT EXISTS (SELECT FROM batch_unblock u
        WHERE (u.day, u.provider_id, u.cause) = (NEW.day, NEW.provider_id, NEW.cause))
    THEN
        RAISE EXCEPTION 'rows of batch_block are kept as they are, but for the mark of what is lifted'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
