-- A cursor moves under its last fence. It goes back only while the chain is halted, to the block that is accepted.
CREATE OR REPLACE FUNCTION chain_cursor_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.chain_id <> OLD.chain_id OR NEW.fence < OLD.fence THEN
        RAISE EXCEPTION 'the fence of a chain never goes back' USING ERRCODE = 'check_violation';
    ELSIF NEW.block < OLD.block
        AND NOT EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = NEW.chain_id AND h.lifted_at IS NULL)
    THEN
        RAISE EXCEPTION 'a cursor goes back only where its chain is halted' USING ERRCODE = 'check_violation';
    ELSIF NEW.block > OLD.block
        AND EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = NEW.chain_id AND h.lifted_at IS NULL)
    THEN
        RAISE EXCEPTION 'a halted chain does not go on' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
