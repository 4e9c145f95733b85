-- admit decides a batch of requests in one round trip and one transaction.
--
-- Requests are taken key by key in the order of (account, key, request). For
-- each key the wallet is locked, which also guards the key's counters; then its
-- requests are decided one after the other on what the earlier ones left, and
-- what they took together is written once. A refused request has no effect at
-- all: it counts against no window and holds nothing.
--
-- Per request: a repeat is told what the first was told; else the key, the
-- model, the account, the rate, the concurrency and the credit decide, in this
-- order. p_rates holds the default limits per minute by class; -1 is none.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION admit(
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
    k           record;
    h           hold%ROWTYPE;
    w           record;
    i           integer;
    c           integer;
    v_now       timestamptz := now();
    v_minute    timestamptz := date_trunc('minute', now());
    v_posted    bigint;
    v_held      bigint;
    v_taken     bigint;
    v_state     text;
    v_key_state text;
    v_key_expires timestamptz;
    v_key_models  text[];
    v_override  integer;
    v_cap       integer;
    v_open      integer;
    v_admitted  integer;
    v_limits    integer[];
    v_used      integer[];
    v_minutes   timestamptz[];
    v_touched   boolean[];
    v_room      integer;
BEGIN
    -- An acknowledged hold must survive a crash, whatever the server's default.
    PERFORM set_config('synchronous_commit', 'on', true);
    o_now := v_now;
    -- Keys that nobody knows.
    FOR i IN
        SELECT u.ord FROM unnest(p_key) WITH ORDINALITY AS u (key_id, ord)
        WHERE NOT EXISTS (SELECT FROM consumer_key ck WHERE ck.id = u.key_id)
    LOOP
        o_ord := i;
        o_outcome := 'invalid_key';
        o_billing := p_billing[i]; o_amount := p_amount[i]; o_price := p_price[i];
        o_input := 0; o_output := 0; o_payout_input := 0; o_payout_output := 0;
        o_limit := 0; o_remaining := 0; o_reset_at := v_now; o_expires_at := v_now;
        RETURN NEXT;
    END LOOP;

    FOR k IN
        SELECT ck.id, ck.account_id,
               array_agg(u.ord::integer ORDER BY u.request_id) AS ords
        FROM unnest(p_request, p_key) WITH ORDINALITY AS u (request_id, key_id, ord)
        JOIN consumer_key ck ON ck.id = u.key_id
        GROUP BY ck.id
        ORDER BY ck.account_id, ck.id
    LOOP
        -- The lock comes first and alone: what is read after it is current.
        SELECT wallet.posted, wallet.held INTO STRICT v_posted, v_held
            FROM wallet WHERE wallet.account_id = k.account_id FOR UPDATE;
        SELECT a.state, coalesce(l.requests_per_minute, 0), coalesce(nullif(l.concurrent_requests, 0), p_concurrent), f.n,
               ck.state, ck.expires_at, ck.allowed_models
            INTO STRICT v_state, v_override, v_cap, v_open, v_key_state, v_key_expires, v_key_models
            FROM account a
            JOIN consumer_key ck ON ck.id = k.id
            JOIN key_inflight f ON f.key_id = k.id
            LEFT JOIN account_limits l ON l.account_id = a.id
            WHERE a.id = k.account_id;
        -- Without limit is still within what key_inflight can count.
        v_cap := least(coalesce(nullif(v_cap, -1), 1000000), 1000000);
        v_taken := 0;
        v_admitted := 0;
        v_touched := ARRAY[false, false, false, false];
        v_used := ARRAY[0, 0, 0, 0];
        v_minutes := ARRAY[v_minute, v_minute, v_minute, v_minute];
        -- NULL is without limit. An account's own limit replaces those of the
        -- categories; for the zero-priced models the stricter one holds.
        v_limits := CASE
            WHEN v_override = -1 THEN ARRAY[NULL, NULL, NULL, NULL]::integer[]
            WHEN v_override > 0 THEN ARRAY[v_override, v_override, v_override, least(v_override, nullif(p_rates[4], -1))]
            ELSE ARRAY[nullif(p_rates[1], -1), nullif(p_rates[2], -1), nullif(p_rates[3], -1), nullif(p_rates[4], -1)]
        END;
        IF v_override <> -1 THEN
            -- A window of a later minute (another server's clock, or ours set
            -- back) goes on counting: no moment has two windows.
            FOR w IN SELECT kw.class, kw.minute, kw.used FROM key_window kw
                     WHERE kw.key_id = k.id AND kw.minute >= v_minute LOOP
                v_used[w.class] := w.used;
                v_minutes[w.class] := w.minute;
            END LOOP;
        END IF;

        FOREACH i IN ARRAY k.ords LOOP
            o_ord := i;
            o_account := k.account_id;
            o_billing := p_billing[i]; o_amount := p_amount[i]; o_price := p_price[i];
            o_input := p_input[i]; o_output := p_output[i];
            o_payout_input := p_payout_input[i]; o_payout_output := p_payout_output[i];
            o_limit := 0; o_remaining := 0; o_reset_at := v_now;
            o_expires_at := v_now + p_ttl;

            SELECT * INTO h FROM hold WHERE hold.request_id = p_request[i];
            IF FOUND THEN
                IF h.key_id <> k.id OR h.model_id <> p_model[i] THEN
                    o_outcome := 'reused';
                    RETURN NEXT;
                    CONTINUE;
                END IF;
                o_outcome := 'repeated';
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
                WHEN v_key_state = 'revoked' THEN 'key_revoked'
                WHEN v_key_expires <= v_now THEN 'key_expired'
                WHEN cardinality(v_key_models) > 0 AND p_model[i] <> ALL (v_key_models) THEN 'model_not_allowed'
                WHEN v_state = 'frozen' THEN 'account_frozen'
                WHEN v_room <= 0 THEN 'rate_limited'
                WHEN v_open + v_admitted >= v_cap THEN 'too_many_open'
                WHEN p_amount[i] > v_posted - v_held - v_taken THEN 'credit_short'
                ELSE 'admitted'
            END;
            IF o_outcome <> 'admitted' THEN
                RETURN NEXT;
                CONTINUE;
            END IF;

            v_admitted := v_admitted + 1;
            v_taken := v_taken + p_amount[i];
            v_used[p_class[i]] := v_used[p_class[i]] + 1;
            v_touched[p_class[i]] := true;
            IF p_zero[i] THEN
                v_used[4] := v_used[4] + 1;
                v_touched[4] := true;
            END IF;
            o_remaining := greatest(o_remaining - 1, 0);
            INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
                max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate,
                payout_output_rate, rate_limit, rate_remaining, rate_reset_at, expires_at)
            VALUES (p_request[i], k.account_id, k.id, p_model[i], p_billing[i], p_amount[i], p_prompt[i],
                p_completion[i], p_pinned[i], p_price[i], p_input[i], p_output[i], p_payout_input[i],
                p_payout_output[i], o_limit, o_remaining, o_reset_at, o_expires_at);
            RETURN NEXT;
        END LOOP;

        CONTINUE WHEN v_admitted = 0;
        UPDATE key_inflight SET n = n + v_admitted WHERE key_id = k.id;
        IF v_taken > 0 THEN
            UPDATE wallet SET held = held + v_taken WHERE wallet.account_id = k.account_id;
        END IF;
        FOR j IN 1 .. 4 LOOP
            IF v_touched[j] AND v_limits[j] IS NOT NULL THEN
                INSERT INTO key_window AS kw (key_id, class, minute, used) VALUES (k.id, j, v_minutes[j], v_used[j])
                    ON CONFLICT (key_id, class) DO UPDATE SET minute = excluded.minute, used = excluded.used;
            END IF;
        END LOOP;
    END LOOP;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION admit FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admit TO svc_billing;
