-- A sweep takes what it takes of its address from its planning on, and for good once it is done. This runs as the owner,
-- because nobody else writes sums.
CREATE OR REPLACE FUNCTION sweep_sums() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
DECLARE
    v_leaving numeric := 0;
    v_swept numeric := 0;
BEGIN
    IF NEW.state IN ('planned', 'sent') THEN
        v_leaving := NEW.amount;
    ELSIF NEW.state = 'done' THEN
        v_swept := NEW.amount;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.state IN ('planned', 'sent') THEN
        v_leaving := v_leaving - OLD.amount;
    ELSIF TG_OP = 'UPDATE' AND OLD.state = 'done' THEN
        v_swept := v_swept - OLD.amount;
    END IF;
    PERFORM add_deposit_balance(NEW.deposit_index, NEW.chain_id, NEW.token, 0, 0, 0, v_leaving, v_swept);
    RETURN NULL;
END $$;
