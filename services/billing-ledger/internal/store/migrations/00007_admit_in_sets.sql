-- admit as before (00005), in statements for the whole batch instead of some
-- for each request: the wallets of all keys are locked first and in the order
-- of their ids; then the batch is decided in memory, key by key in the order of
-- (account, key, request); then what it decided is written, holds in the order
-- of their ids. So a batch waits for another's only in an order that all keep.
--
-- A request that another batch admits meanwhile for another account cannot be
-- seen beforehand. It ends the batch as a serialization failure, and its repeat
-- sees it.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION admit(
    p_request uuid[], p_key uuid[], p_model text[], p_class smallint[], p_zero boolean[], p_billing text[],
    p_amount bigint[], p_prompt bigint[], p_completion bigint[], p_pinned boolean[], p_price uuid[],
    p_input bigint[], p_output bigint[], p_payout_input bigint[], p_payout_output bigint[],
    p_rates integer[], p_concurrent integer, p_ttl interval)
RETURNS TABLE (
    o_ord integer, o_outcome text, o_account uuid, o_billing text, o_amount bigint, o_price uuid,
    o_input bigint, o_output bigint, o_payout_input bigint, o_payout_output bigint,
    o_limit integer, o_remaining integer, o_reset_at timestamptz, o_expires_at timestamptz, o_now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    k          record;
    h          hold%ROWTYPE;
    w          record;
    i          integer;
    c          integer;
    v_now      timestamptz := now();
    v_minute   timestamptz := date_trunc('minute', now());
    v_accounts uuid[];
    v_known    uuid[];
    v_account  uuid;
    v_free     bigint;
    v_cap      integer;
    v_room     integer;
    v_admitted integer;
    v_taken    bigint;
    v_limits   integer[];
    v_used     integer[];
    v_minutes  timestamptz[];
    v_touched  boolean[];
    v_decided  integer := 0;
    -- What is to be written: requests admitted (their places in the batch, and
    -- what they were told), keys with their counts, accounts with their sums,
    -- and windows.
    n_ord       integer[] := '{}';
    n_request   uuid[] := '{}';
    n_account   uuid[] := '{}';
    n_limit     integer[] := '{}';
    n_remaining integer[] := '{}';
    n_reset     timestamptz[] := '{}';
    k_id        uuid[] := '{}';
    k_account   uuid[] := '{}';
    k_admitted  integer[] := '{}';
    k_taken     bigint[] := '{}';
    w_key       uuid[] := '{}';
    w_class     smallint[] := '{}';
    w_minute    timestamptz[] := '{}';
    w_used      integer[] := '{}';
BEGIN
    -- An acknowledged hold must survive a crash, whatever the server's default.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    o_now := v_now;

    -- The locks come first and alone: what is read after them is current.
    v_accounts := ARRAY(
        SELECT wallet.account_id FROM wallet
        WHERE wallet.account_id = ANY (ARRAY(SELECT ck.account_id FROM consumer_key ck WHERE ck.id = ANY (p_key)))
        ORDER BY wallet.account_id FOR UPDATE);
    -- Requests that were admitted before.
    v_known := ARRAY(
        SELECT u.request_id FROM unnest(p_request) AS u (request_id)
        CROSS JOIN LATERAL (SELECT FROM hold WHERE hold.request_id = u.request_id LIMIT 1) known);

    FOR k IN
        SELECT ck.id, ck.account_id, ck.state AS key_state, ck.expires_at, ck.allowed_models,
               a.state, wa.posted - wa.held AS free, f.n AS open,
               coalesce(l.requests_per_minute, 0) AS override,
               coalesce(nullif(l.concurrent_requests, 0), p_concurrent) AS cap, u.ords
        FROM (SELECT u.key_id, array_agg(u.ord::integer ORDER BY u.request_id, u.ord) AS ords
              FROM unnest(p_request, p_key) WITH ORDINALITY AS u (request_id, key_id, ord) GROUP BY u.key_id) u
        JOIN consumer_key ck ON ck.id = u.key_id
        JOIN account a ON a.id = ck.account_id
        JOIN wallet wa ON wa.account_id = ck.account_id
        JOIN key_inflight f ON f.key_id = ck.id
        LEFT JOIN account_limits l ON l.account_id = ck.account_id
        WHERE ck.account_id = ANY (v_accounts)
        ORDER BY ck.account_id, ck.id
    LOOP
        IF v_account IS DISTINCT FROM k.account_id THEN
            v_account := k.account_id;
            v_free := k.free;
        END IF;
        -- Without limit is still within what key_inflight can count.
        v_cap := least(coalesce(nullif(k.cap, -1), 1000000), 1000000);
        v_admitted := 0;
        v_taken := 0;
        v_touched := ARRAY[false, false, false, false];
        v_used := ARRAY[0, 0, 0, 0];
        v_minutes := ARRAY[v_minute, v_minute, v_minute, v_minute];
        -- NULL is without limit. An account's own limit replaces those of the
        -- categories; for the zero-priced models the stricter one holds.
        v_limits := CASE
            WHEN k.override = -1 THEN ARRAY[NULL, NULL, NULL, NULL]::integer[]
            WHEN k.override > 0 THEN ARRAY[k.override, k.override, k.override, least(k.override, nullif(p_rates[4], -1))]
            ELSE ARRAY[nullif(p_rates[1], -1), nullif(p_rates[2], -1), nullif(p_rates[3], -1), nullif(p_rates[4], -1)]
        END;
        IF coalesce(v_limits[1], v_limits[2], v_limits[3], v_limits[4]) IS NOT NULL THEN
            -- A window of a later minute (another server's clock, or ours set
            -- back) goes on counting: no moment has two windows.
            FOR w IN SELECT kw.class, kw.minute, kw.used FROM key_window kw
                     WHERE kw.key_id = k.id AND kw.minute >= v_minute LOOP
                v_used[w.class] := w.used;
                v_minutes[w.class] := w.minute;
            END LOOP;
        END IF;

        FOREACH i IN ARRAY k.ords LOOP
            v_decided := v_decided + 1;
            o_ord := i;
            o_account := k.account_id;
            o_billing := p_billing[i]; o_amount := p_amount[i]; o_price := p_price[i];
            o_input := p_input[i]; o_output := p_output[i];
            o_payout_input := p_payout_input[i]; o_payout_output := p_payout_output[i];
            o_limit := 0; o_remaining := 0; o_reset_at := v_now;
            o_expires_at := v_now + p_ttl;

            IF p_request[i] = ANY (n_request) THEN
                -- Admitted further up in this batch.
                c := array_position(n_request, p_request[i]);
                o_limit := n_limit[c]; o_remaining := n_remaining[c]; o_reset_at := n_reset[c];
                c := n_ord[c];
                o_outcome := CASE WHEN p_key[c] = k.id AND p_model[c] = p_model[i] THEN 'repeated' ELSE 'reused' END;
                o_billing := p_billing[c]; o_amount := p_amount[c]; o_price := p_price[c];
                o_input := p_input[c]; o_output := p_output[c];
                o_payout_input := p_payout_input[c]; o_payout_output := p_payout_output[c];
                RETURN NEXT;
                CONTINUE;
            ELSIF p_request[i] = ANY (v_known) THEN
                SELECT * INTO STRICT h FROM hold WHERE hold.request_id = p_request[i];
                o_outcome := CASE WHEN h.key_id = k.id AND h.model_id = p_model[i] THEN 'repeated' ELSE 'reused' END;
                o_billing := h.billing_type; o_amount := h.amount; o_price := h.price_version_id;
                o_input := h.input_rate; o_output := h.output_rate;
                o_payout_input := h.payout_input_rate; o_payout_output := h.payout_output_rate;
                o_limit := h.rate_limit; o_remaining := h.rate_remaining; o_reset_at := h.rate_reset_at;
                o_expires_at := h.expires_at;
                RETURN NEXT;
                CONTINUE;
            END IF;

            -- c is the window that leaves the least room.
            c := p_class[i];
            IF p_zero[i] AND (v_limits[c] IS NULL OR v_limits[4] - v_used[4] < v_limits[c] - v_used[c]) THEN
                c := 4;
            END IF;
            v_room := v_limits[c] - v_used[c];
            IF v_room IS NOT NULL THEN
                o_limit := v_limits[c];
                o_remaining := greatest(v_room, 0);
                o_reset_at := v_minutes[c] + interval '1 minute';
            END IF;

            o_outcome := CASE
                WHEN k.key_state = 'revoked' THEN 'key_revoked'
                WHEN k.expires_at <= v_now THEN 'key_expired'
                WHEN cardinality(k.allowed_models) > 0 AND p_model[i] <> ALL (k.allowed_models) THEN 'model_not_allowed'
                WHEN k.state = 'frozen' THEN 'account_frozen'
                WHEN v_room <= 0 THEN 'rate_limited'
                WHEN k.open + v_admitted >= v_cap THEN 'too_many_open'
                WHEN p_amount[i] > v_free THEN 'credit_short'
                ELSE 'admitted'
            END;
            IF o_outcome <> 'admitted' THEN
                RETURN NEXT;
                CONTINUE;
            END IF;

            v_admitted := v_admitted + 1;
            v_taken := v_taken + p_amount[i];
            v_free := v_free - p_amount[i];
            v_used[p_class[i]] := v_used[p_class[i]] + 1;
            v_touched[p_class[i]] := true;
            IF p_zero[i] THEN
                v_used[4] := v_used[4] + 1;
                v_touched[4] := true;
            END IF;
            o_remaining := greatest(o_remaining - 1, 0);
            n_ord := n_ord || i;
            n_request := n_request || p_request[i];
            n_account := n_account || k.account_id;
            n_limit := n_limit || o_limit;
            n_remaining := n_remaining || o_remaining;
            n_reset := n_reset || o_reset_at;
            RETURN NEXT;
        END LOOP;

        CONTINUE WHEN v_admitted = 0;
        k_id := k_id || k.id;
        k_account := k_account || k.account_id;
        k_admitted := k_admitted || v_admitted;
        k_taken := k_taken || v_taken;
        FOR j IN 1 .. 4 LOOP
            IF v_touched[j] AND v_limits[j] IS NOT NULL THEN
                w_key := w_key || k.id;
                w_class := w_class || j::smallint;
                w_minute := w_minute || v_minutes[j];
                w_used := w_used || v_used[j];
            END IF;
        END LOOP;
    END LOOP;

    IF cardinality(n_ord) > 0 THEN
        INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
            max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate,
            payout_output_rate, rate_limit, rate_remaining, rate_reset_at, expires_at)
        SELECT n.request_id, n.account_id, p_key[n.ord], p_model[n.ord], p_billing[n.ord], p_amount[n.ord], p_prompt[n.ord],
            p_completion[n.ord], p_pinned[n.ord], p_price[n.ord], p_input[n.ord], p_output[n.ord], p_payout_input[n.ord],
            p_payout_output[n.ord], n.rate_limit, n.rate_remaining, n.rate_reset_at, v_now + p_ttl
        FROM unnest(n_ord, n_request, n_account, n_limit, n_remaining, n_reset)
            AS n (ord, request_id, account_id, rate_limit, rate_remaining, rate_reset_at)
        ORDER BY n.request_id
        ON CONFLICT (request_id) DO NOTHING;
        GET DIAGNOSTICS c = ROW_COUNT;
        IF c <> cardinality(n_ord) THEN
            RAISE EXCEPTION 'a request of the batch was admitted for another account meanwhile'
                USING ERRCODE = 'serialization_failure';
        END IF;
        FOR j IN 1 .. cardinality(k_id) LOOP
            UPDATE key_inflight f SET n = f.n + k_admitted[j] WHERE f.key_id = k_id[j];
            IF k_taken[j] > 0 THEN
                UPDATE wallet SET held = wallet.held + k_taken[j] WHERE wallet.account_id = k_account[j];
            END IF;
        END LOOP;
        IF cardinality(w_key) > 0 THEN
            INSERT INTO key_window AS kw (key_id, class, minute, used)
                SELECT * FROM unnest(w_key, w_class, w_minute, w_used)
                ON CONFLICT (key_id, class) DO UPDATE SET minute = excluded.minute, used = excluded.used;
        END IF;
    END IF;

    -- Keys that nobody knew when the wallets were locked.
    IF v_decided < cardinality(p_request) THEN
        FOR i IN
            SELECT u.ord FROM unnest(p_key) WITH ORDINALITY AS u (key_id, ord)
            WHERE NOT EXISTS (SELECT FROM consumer_key ck WHERE ck.id = u.key_id AND ck.account_id = ANY (v_accounts))
        LOOP
            o_ord := i;
            o_outcome := 'invalid_key';
            o_account := NULL;
            o_billing := p_billing[i]; o_amount := p_amount[i]; o_price := p_price[i];
            o_input := 0; o_output := 0; o_payout_input := 0; o_payout_output := 0;
            o_limit := 0; o_remaining := 0; o_reset_at := v_now; o_expires_at := v_now;
            RETURN NEXT;
        END LOOP;
    END IF;
END $$;
-- +goose StatementEnd

-- A plan depends on nothing in a batch but its size: without the first, small
-- batches are planned anew each time. It is kept for as long as the connection
-- lives: without the second, one that was made while a table was empty would
-- read all of it when it no longer is.
ALTER FUNCTION admit SET plan_cache_mode = 'force_generic_plan';
ALTER FUNCTION admit SET enable_seqscan = 'off';
