-- The end of a call marks it, and its cost is what the books do not have yet. This runs as the owner, because nobody else
-- writes marks and sums.
CREATE OR REPLACE FUNCTION call_end_marks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
BEGIN
    UPDATE chain_call SET ended = true WHERE chain_id = NEW.chain_id AND sender = NEW.sender AND nonce = NEW.nonce;
    INSERT INTO chain_unbooked AS u (chain_id, wei) VALUES (NEW.chain_id, NEW.cost)
        ON CONFLICT (chain_id) DO UPDATE SET wei = u.wei + excluded.wei;
    RETURN NULL;
END $$;
