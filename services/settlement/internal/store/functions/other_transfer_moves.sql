-- A transfer of another token begins as unmatched. It is returned once, and dropped where its chain has it no longer.
-- What it is stays, unless its transaction is mined again after it was dropped.
CREATE OR REPLACE FUNCTION other_transfer_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'unmatched' THEN
            RAISE EXCEPTION 'a transfer of another token begins as unmatched' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.chain_id, NEW.tx_hash, NEW.place) IS DISTINCT FROM (OLD.chain_id, OLD.tx_hash, OLD.place)
        OR OLD.state <> 'dropped' AND (NEW.contract, NEW.symbol, NEW.decimals, NEW.sender, NEW.deposit_index, NEW.amount)
            IS DISTINCT FROM (OLD.contract, OLD.symbol, OLD.decimals, OLD.sender, OLD.deposit_index, OLD.amount)
    THEN
        RAISE EXCEPTION 'what a transfer of another token is stays' USING ERRCODE = 'check_violation';
    ELSIF OLD.state = 'returned'
        AND (NEW.state, NEW.return_tx, NEW.ended_by, NEW.end_reason)
            IS DISTINCT FROM (OLD.state, OLD.return_tx, OLD.ended_by, OLD.end_reason)
    THEN
        RAISE EXCEPTION 'a transfer of another token is returned once' USING ERRCODE = 'check_violation';
    ELSIF NEW.state <> OLD.state
        AND (OLD.state, NEW.state) NOT IN (('unmatched', 'returned'), ('unmatched', 'dropped'), ('dropped', 'unmatched'))
    THEN
        RAISE EXCEPTION 'a transfer of another token does not go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
