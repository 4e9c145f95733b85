-- A call takes the next nonce of its sender, on a chain without an open halt; a halt of reserves keeps payouts alone. At
-- most 16 calls of a sender wait.
CREATE OR REPLACE FUNCTION chain_call_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    c_max CONSTANT bigint := 16;
    v_next bigint;
    v_ended bigint;
BEGIN
    SELECT s.next INTO v_next FROM sender s WHERE s.chain_id = NEW.chain_id AND s.address = NEW.sender FOR UPDATE;
    SELECT max(e.nonce) INTO v_ended FROM call_end e WHERE e.chain_id = NEW.chain_id AND e.sender = NEW.sender;
    IF NEW.nonce IS DISTINCT FROM v_next THEN
        RAISE EXCEPTION 'nonce % does not follow: % is next', NEW.nonce, v_next USING ERRCODE = 'check_violation';
    ELSIF v_next - coalesce(v_ended + 1, 0) >= c_max THEN
        RAISE EXCEPTION 'at most % calls of a sender wait', c_max
            USING ERRCODE = 'check_violation', CONSTRAINT = 'chain_call_bound';
    ELSIF EXISTS (SELECT FROM sending_halt h WHERE h.chain_id = NEW.chain_id AND h.lifted_at IS NULL
            AND (h.cause <> 'reserves' OR NEW.purpose = 'payout'))
        OR EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = NEW.chain_id AND h.lifted_at IS NULL)
    THEN
        RAISE EXCEPTION 'nothing new is sent on a halted chain'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'chain_call_halted';
    END IF;
    NEW.created_at := clock_timestamp();
    RETURN NEW;
END $$;
