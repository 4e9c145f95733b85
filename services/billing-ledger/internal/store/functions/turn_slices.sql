-- turn_slices opens, fills and closes slices of different accounts for one owner, under the locks on
-- the wallets. An epoch of 0 asks for a slice; one that the owner has already, without knowing it, is
-- that. None opens while a stranded slice of the account is left, so that owners which die one after the
-- other strand one slice's credit and places. A slice never gets less than it has here, because its owner may have admitted more meanwhile.
-- A slice that was recalled gets nothing, neither credit nor time to live: its owner closes it by the next
-- turn, or counts as dead.
--
-- A slice has at most one p_share-th of what is available with it, and gets nothing while that is less than
-- p_least. p_concurrent is the default bound of requests under way, and -1 is none. It returns a row for
-- each account, in the order of p_account, with epoch 0 where the owner has no slice.
CREATE OR REPLACE FUNCTION turn_slices(
    p_owner uuid, p_address text, p_account uuid[], p_epoch bigint[], p_want bigint[], p_places integer[],
    p_close boolean[], p_concurrent integer, p_lease interval, p_reclaim_after interval, p_keys integer, p_share integer,
    p_least bigint)
RETURNS TABLE (o_epoch bigint, o_plain boolean, o_recalled boolean, o_amount bigint, o_places integer, o_free bigint, o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    s      slice%ROWTYPE;
    k      record;
    v_mine boolean;
    v_top  bigint;
    v_room bigint;
BEGIN
    o_now := now();
    FOR i IN 1 .. cardinality(p_account) LOOP
        SELECT * INTO s FROM slice WHERE account_id = p_account[i] AND state = 'open';
        v_mine := FOUND AND s.owner = p_owner AND p_epoch[i] IN (0, s.epoch);
        IF p_close[i] AND p_epoch[i] = 0 AND s.epoch > extract(epoch FROM now()) * 1000000 THEN
            v_mine := false; -- it was opened since the transaction began, so its owner means an earlier one
        END IF;
        SELECT count(*) AS n, coalesce(bool_and(u.plain), false) AS plain, coalesce(bool_or(u.frozen), false) AS frozen,
               coalesce(nullif(max(u.concurrent), 0), p_concurrent) AS cap
        INTO k FROM (SELECT * FROM admission_key v
            WHERE v.account_id = p_account[i] AND NOT v.revoked AND NOT v.expired LIMIT p_keys + 1) u;
        o_plain := k.plain AND k.n <= p_keys;

        IF p_close[i] THEN
            IF v_mine THEN
                UPDATE wallet SET held = held - s.amount WHERE account_id = s.account_id;
                DELETE FROM slice WHERE account_id = s.account_id AND epoch = s.epoch;
                v_mine := false;
            END IF;
        ELSIF p_epoch[i] = 0 AND NOT v_mine AND o_plain AND NOT k.frozen AND coalesce(s.alive_until <= now(), true) THEN
            IF s.account_id IS NOT NULL THEN
                PERFORM strand_slices(ARRAY[s.account_id]);
            ELSIF NOT EXISTS (SELECT FROM slice u WHERE u.account_id = p_account[i]) THEN
                INSERT INTO slice (account_id, owner, address, alive_until, reclaim_after)
                    VALUES (p_account[i], p_owner, p_address, now() + p_lease, p_reclaim_after) RETURNING * INTO s;
                v_mine := true;
            END IF;
        END IF;

        SELECT posted - held INTO o_free FROM wallet WHERE account_id = p_account[i];
        o_epoch := 0; o_recalled := false; o_amount := 0; o_places := 0;
        IF v_mine AND s.recalled THEN
            o_epoch := s.epoch; o_recalled := true;
        ELSIF v_mine THEN
            v_top := 0;
            IF o_plain AND NOT k.frozen AND o_free + s.amount >= p_least THEN
                v_top := greatest(least(p_want[i], (o_free + s.amount) / p_share) - s.amount, 0);
            END IF;
            SELECT CASE k.cap WHEN -1 THEN 1000000 ELSE k.cap END - coalesce(sum(f.n), 0)
            INTO v_room FROM consumer_key ck JOIN key_inflight f ON f.key_id = ck.id
            WHERE ck.account_id = p_account[i]
                AND coalesce(least(ck.revoked_at, ck.expires_at), 'infinity'::timestamptz) > now() - interval '1 day';
            UPDATE slice SET address = p_address, amount = s.amount + v_top,
                places = greatest(s.places, least(p_places[i], 256, v_room / 2)), alive_until = greatest(s.alive_until, now() + p_lease)
            WHERE account_id = s.account_id AND epoch = s.epoch RETURNING epoch, amount, places
            INTO o_epoch, o_amount, o_places;
            IF v_top > 0 THEN
                UPDATE wallet SET held = held + v_top WHERE account_id = p_account[i];
                o_free := o_free - v_top;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
