-- An entry balances, is whole when it is committed, and undoes what it says.
CREATE OR REPLACE FUNCTION check_entry() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_entry uuid;
    e       record;
    v_legs  bigint;
    v_wrong text;
BEGIN
    IF TG_TABLE_NAME = 'entry' THEN
        v_entry := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        v_entry := OLD.entry_id;
    ELSE
        v_entry := NEW.entry_id;
    END IF;
    SELECT coalesce(sum(n), 0), string_agg(format('%s: %s', asset, total), ', ') FILTER (WHERE total <> 0)
        INTO v_legs, v_wrong
        FROM (SELECT asset, count(*) AS n, sum(amount) AS total FROM posting WHERE entry_id = v_entry GROUP BY asset) sums;
    IF v_legs < 2 OR v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'entry % has % legs that sum to %', v_entry, v_legs, coalesce(v_wrong, 'nothing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_balances';
    END IF;
    SELECT entry.at, entry.reverses, entry.quote_asset, original.kind AS reversed INTO e
        FROM entry LEFT JOIN entry original ON original.id = entry.reverses WHERE entry.id = v_entry;
    -- An entry is whole when it is committed: no later transaction adds to it.
    IF e.at IS DISTINCT FROM now() THEN
        RAISE EXCEPTION 'entry % was posted before', v_entry
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_is_whole';
    END IF;
    IF e.reversed = 'reversal' OR EXISTS (
        SELECT FROM (SELECT * FROM posting WHERE entry_id = v_entry) r
        FULL JOIN (SELECT * FROM posting WHERE entry_id = e.reverses) o USING (leg)
        WHERE e.reverses IS NOT NULL AND (r.account_kind, r.owner_id, r.book, r.asset, -r.amount)
            IS DISTINCT FROM (o.account_kind, o.owner_id, o.book, o.asset, o.amount))
    THEN
        RAISE EXCEPTION 'entry % does not undo entry %', v_entry, e.reverses
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_undoes';
    END IF;
    -- A coin has a quote, which is its own. USDC is worth a dollar.
    IF e.reverses IS NULL AND e.quote_asset IS DISTINCT FROM (
        SELECT min(book) FROM posting WHERE entry_id = v_entry AND account_kind = 'a:crypto' AND book NOT LIKE '%:usdc')
    THEN
        RAISE EXCEPTION 'entry % moves another coin than its quote is of', v_entry
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_quoted';
    END IF;
    RETURN NULL;
END $$;
