-- A call comes with its sender's count. The call of a payout is decided together with it, and pays its address its
-- amount.
CREATE OR REPLACE FUNCTION chain_call_fits() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    c_id CONSTANT text := '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
    c_transfer CONSTANT bytea := '\xa9059cbb000000000000000000000000'; -- transfer(address,uint256)
BEGIN
    IF NOT EXISTS (SELECT FROM sender s WHERE s.chain_id = NEW.chain_id AND s.address = NEW.sender AND s.next > NEW.nonce)
    THEN
        RAISE EXCEPTION 'each nonce of a sender is counted' USING ERRCODE = 'check_violation';
    ELSIF NEW.purpose = 'payout' AND NOT EXISTS (
        SELECT FROM payout p WHERE p.payout_id = CASE WHEN NEW.ref ~ c_id THEN NEW.ref::uuid END
            AND p.chain_id = NEW.chain_id AND p.ends_as IS NULL
            AND p.state NOT IN ('requested', 'approved')
            AND CASE p.chain_id
                WHEN 254 THEN NEW.recipient = p.address AND NEW.value = p.amount AND octet_length(NEW.data) = 0
                ELSE NEW.value = 0 AND octet_length(NEW.data) = 68
                    AND substr(NEW.data, 1, 36) = c_transfer || p.address
                    AND substr(NEW.data, 37, 24) = decode(repeat('00', 24), 'hex')
                    AND p.amount = ('x' || encode(substr(NEW.data, 61, 8), 'hex'))::bit(64)::bigint
            END
    ) THEN
        RAISE EXCEPTION 'the call of a payout pays it' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
