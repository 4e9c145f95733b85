-- A cost that is posted, or worthless, marks the end of its call. This runs as the owner, because nobody else writes marks
-- and sums.
CREATE OR REPLACE FUNCTION call_gas_marks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.entry_id IS NULL AND NOT NEW.worthless THEN
        RETURN NULL;
    END IF;
    UPDATE call_end SET booked = true WHERE chain_id = NEW.chain_id AND sender = NEW.sender AND nonce = NEW.nonce;
    IF NEW.entry_id IS NOT NULL THEN
        UPDATE chain_unbooked SET wei = wei - NEW.units::numeric * 1000000000 WHERE chain_id = NEW.chain_id;
    END IF;
    RETURN NULL;
END $$;
