-- A payout changes by a transition of payout_transition alone, one revision at a time. A final one never changes. Who
-- consents, what the chain says and what stands beside it are looked up here again. One that was lost and adopted with
-- its call was sent already: it needs no consent, and is not taken back. An operator who signed in is name@id, and a
-- program has no '@' in its name.
CREATE OR REPLACE FUNCTION payout_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    c_alone CONSTANT bigint := 1000000000000;  -- $1,000: above, an operator
    c_one   CONSTANT bigint := 10000000000000; -- $10,000: above, two who signed in
    v_consents integer;
    v_outcome text;
    v_signed boolean;
    v_adopted boolean;
BEGIN
    SELECT EXISTS (SELECT FROM adopted_payout a
        JOIN chain_call c ON c.purpose = 'payout' AND c.ref = a.payout_id::text WHERE a.payout_id = NEW.payout_id)
    INTO v_adopted;
    IF OLD.state IN ('confirmed', 'failed', 'cancelled') THEN
        RAISE EXCEPTION 'a payout that is % never changes', OLD.state USING ERRCODE = 'check_violation';
    ELSIF (OLD.payout_id, OLD.provider_id, OLD.chain_id, OLD.gross_nano_usd, OLD.fee_nano_usd, OLD.address,
           OLD.requested_at, OLD.previous_at)
        IS DISTINCT FROM
          (NEW.payout_id, NEW.provider_id, NEW.chain_id, NEW.gross_nano_usd, NEW.fee_nano_usd, NEW.address,
           NEW.requested_at, NEW.previous_at)
    THEN
        RAISE EXCEPTION 'what a payout says stays' USING ERRCODE = 'check_violation';
    ELSIF OLD.reserved_entry IS NOT NULL AND OLD.reserved_entry IS DISTINCT FROM NEW.reserved_entry
        OR OLD.amount IS NOT NULL AND (OLD.amount, OLD.rate_nano_usd, OLD.rate_source, OLD.rate_at)
            IS DISTINCT FROM (NEW.amount, NEW.rate_nano_usd, NEW.rate_source, NEW.rate_at)
        OR OLD.ends_as IS NOT NULL AND (OLD.ends_as, OLD.ends_reason) IS DISTINCT FROM (NEW.ends_as, NEW.ends_reason)
            AND NOT (NEW.state = 'failed' AND NEW.reserved_entry IS NULL)
            AND NOT (v_adopted AND NEW.state = 'signing' AND NEW.ends_as IS NULL)
    THEN
        RAISE EXCEPTION 'what a payout has decided stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.state = OLD.state AND NEW.revision = OLD.revision THEN
        IF (OLD.reserved_entry, OLD.ends_as, OLD.amount) IS DISTINCT FROM (NEW.reserved_entry, NEW.ends_as, NEW.amount) THEN
            RAISE EXCEPTION 'a payout changes with a revision' USING ERRCODE = 'check_violation';
        END IF;
        NEW.changed_at := OLD.changed_at;
        RETURN NEW;
    ELSIF NEW.revision <> OLD.revision + 1 THEN
        RAISE EXCEPTION 'revision % does not follow %', NEW.revision, OLD.revision USING ERRCODE = 'check_violation';
    END IF;
    NEW.changed_at := clock_timestamp();
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    ELSIF NOT EXISTS (SELECT FROM payout_transition t WHERE t.from_state = OLD.state AND t.to_state = NEW.state) THEN
        RAISE EXCEPTION 'a payout does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;

    SELECT e.outcome, EXISTS (SELECT FROM signed_tx s WHERE (s.chain_id, s.sender, s.nonce) = (c.chain_id, c.sender, c.nonce))
    INTO v_outcome, v_signed
    FROM chain_call c LEFT JOIN call_end e USING (chain_id, sender, nonce)
    WHERE c.purpose = 'payout' AND c.ref = NEW.payout_id::text;
    IF NEW.state = 'approved' THEN
        SELECT count(*) INTO v_consents FROM payout_approval a
        WHERE a.payout_id = NEW.payout_id AND (NEW.gross_nano_usd <= c_one OR a.actor LIKE '%@%');
        IF NOT v_adopted AND v_consents
            < (CASE WHEN NEW.gross_nano_usd > c_one THEN 2 WHEN NEW.gross_nano_usd > c_alone THEN 1 ELSE 0 END)
        THEN
            RAISE EXCEPTION 'a payout of this size waits for operators'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_consent';
        END IF;
    ELSIF NEW.state = 'signing' AND v_signed IS NULL
        OR NEW.state = 'submitted' AND v_signed IS DISTINCT FROM true
        OR NEW.state = 'confirmed' AND v_outcome IS DISTINCT FROM 'succeeded'
        OR NEW.state = 'failed' AND v_signed IS NOT NULL AND coalesce(v_outcome, '') NOT IN ('reverted', 'cancelled')
        OR NEW.state = 'cancelled' AND v_signed IS NOT NULL
    THEN
        RAISE EXCEPTION 'a payout is % once its transaction is', NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_chain';
    END IF;
    RETURN NEW;
END $$;
