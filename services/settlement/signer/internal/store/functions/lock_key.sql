-- Takes the lock of a key on a chain until the end of the transaction. What a key has used of
-- a day's caps, and which nonces it has signed, is read and added to under this lock alone.
CREATE OR REPLACE FUNCTION lock_key(p_chain bigint, p_key text) RETURNS void
LANGUAGE sql SET search_path = signer, pg_temp AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(format('signer.%s.%s', p_chain, p_key), 0));
$$;
