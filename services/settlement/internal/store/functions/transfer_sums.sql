-- What a transfer is worth to its address changes with its state. This runs as the owner, because nobody else writes
-- sums.
CREATE OR REPLACE FUNCTION transfer_sums() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
DECLARE
    v_was numeric := 0;
    v_was_posted numeric := 0;
    v_is numeric := 0;
    v_is_posted numeric := 0;
BEGIN
    IF NEW.state NOT IN ('seen', 'dropped') THEN
        v_is := NEW.amount;
        v_is_posted := CASE WHEN NEW.state = 'final' THEN 0 ELSE NEW.amount END;
    END IF;
    -- Where a transfer is and what it is changes only while it counts for nothing.
    IF TG_OP = 'UPDATE' AND OLD.state NOT IN ('seen', 'dropped') THEN
        v_was := OLD.amount;
        v_was_posted := CASE WHEN OLD.state = 'final' THEN 0 ELSE OLD.amount END;
    END IF;
    PERFORM add_deposit_balance(NEW.deposit_index, NEW.chain_id, NEW.token, v_is - v_was, v_is_posted - v_was_posted, 0,
        0, 0);
    RETURN NULL;
END $$;
