-- A revaluation is one row and one entry, which say the same: the coin and the day of its
-- business id, and a change to what the units are worth at the entry's rate, rounded half to
-- even.
CREATE OR REPLACE FUNCTION check_revaluation() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    r       record;
    v_whole numeric;
    v_exact numeric;
    v_worth numeric;
BEGIN
    SELECT v.*, e.quote_rate, e.quote_asset, e.business_id, a.decimals INTO r
        FROM revaluation v JOIN entry e ON e.id = v.entry_id AND e.kind = 'revaluation' JOIN asset a ON a.id = v.token
        WHERE v.entry_id = NEW.entry_id;
    v_whole := 10::numeric ^ r.decimals;
    v_exact := abs(r.units)::numeric * r.quote_rate;
    v_worth := div(v_exact, v_whole);
    IF 2 * mod(v_exact, v_whole) > v_whole OR 2 * mod(v_exact, v_whole) = v_whole AND mod(v_worth, 2) = 1 THEN
        v_worth := v_worth + 1;
    END IF;
    IF r.entry_id IS NULL OR r.quote_asset <> r.token OR r.business_id <> r.token || '/' || to_char(r.day, 'YYYY-MM-DD')
        OR r.worth <> sign(r.units) * v_worth
        OR r.worth - r.booked IS DISTINCT FROM -(SELECT sum(amount) FROM posting
            WHERE entry_id = NEW.entry_id AND account_kind = 'a:crypto' AND book = r.token AND asset = 'usd')
    THEN
        RAISE EXCEPTION 'entry % does not revalue a coin as its row says', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'revaluation_is_posted';
    END IF;
    RETURN NULL;
END $$;
