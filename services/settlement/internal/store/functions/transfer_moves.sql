-- A transfer begins as seen or final, and goes the ways of transfer_transition. What it is and what was decided and
-- posted of it stays. What was only seen is something else, where its transaction is mined again behind other ones.
-- Nothing is credited while its chain is halted.
CREATE OR REPLACE FUNCTION transfer_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('seen', 'final') OR NEW.decision IS NOT NULL OR NEW.ended IS NOT NULL THEN
            RAISE EXCEPTION 'a transfer begins as seen or final' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.chain_id, NEW.tx_hash, NEW.place) IS DISTINCT FROM (OLD.chain_id, OLD.tx_hash, OLD.place)
        OR (OLD.state NOT IN ('seen', 'dropped') OR OLD.decision IS NOT NULL)
            AND (NEW.token, NEW.sender, NEW.deposit_index, NEW.amount, NEW.units, NEW.dust)
                IS DISTINCT FROM (OLD.token, OLD.sender, OLD.deposit_index, OLD.amount, OLD.units, OLD.dust)
    THEN
        RAISE EXCEPTION 'what a transfer is stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.state <> OLD.state AND NOT EXISTS (
        SELECT FROM transfer_transition t WHERE t.from_state = OLD.state AND t.to_state = NEW.state)
    THEN
        RAISE EXCEPTION 'a transfer does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    ELSIF OLD.decision IS NOT NULL AND (NEW.decision, NEW.rate, NEW.quote_source, NEW.quote_at)
        IS DISTINCT FROM (OLD.decision, OLD.rate, OLD.quote_source, OLD.quote_at)
    THEN
        RAISE EXCEPTION 'a decision stays' USING ERRCODE = 'check_violation';
    ELSIF OLD.account_id IS NOT NULL AND NEW.account_id IS DISTINCT FROM OLD.account_id
        OR OLD.entry_id IS NOT NULL AND NEW.entry_id IS DISTINCT FROM OLD.entry_id
        OR OLD.end_entry_id IS NOT NULL AND OLD.ended <> 'matched'
            AND NEW.end_entry_id IS DISTINCT FROM OLD.end_entry_id
        OR OLD.ended IS NOT NULL AND NEW.ended IS DISTINCT FROM OLD.ended
            AND NOT (NEW.ended = 'gone' AND OLD.ended = 'matched' AND OLD.end_entry_id IS NOT NULL)
    THEN
        RAISE EXCEPTION 'what is posted of a transfer stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.decision IS NOT NULL AND OLD.decision IS NULL
        AND EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = NEW.chain_id AND h.lifted_at IS NULL)
    THEN
        RAISE EXCEPTION 'nothing is decided on a halted chain' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
