-- admit_requests decides a batch of requests in one round trip and one transaction, in
-- statements for the whole batch: the wallets of all keys are locked first and in the
-- order of their ids; then the batch is decided in memory, key by key in the order of
-- (account, key, request), each request on what the earlier ones left; then what was
-- decided is written, holds in the order of their ids. So a batch waits for another's
-- only in an order that all keep. A refused request has no effect at all: it counts
-- against no window and holds nothing.
--
-- A request that another batch admits meanwhile for another account cannot be
-- seen beforehand. It ends the batch as a serialization failure, and its repeat
-- sees it.
--
-- Per request: a repeat is told what the first was told; else the key, the
-- model, the account, the rate, the concurrency and the credit decide, in this
-- order; before the credit, what is left of the key's budget and of the account's caps.
-- p_rates holds the default limits per minute by class; -1 is none. A limit
-- of concurrency counts what is under way with all keys of the account; no key can
-- pass it when the account does not. An account that left too often is answered
-- left_often. The places of stranded slices count as under way, and while the owner of an open slice
-- lives, nothing is decided (see keep_slices_out).
--
-- The terms of an account (see account_limits) bound all of its keys together: in all
-- categories and in each of them. A term for a category replaces the default rate of each key
-- there. A discount lowers what a request can cost, rounded as settling rounds it.
--
-- Of rates (see key_rate), v_ahead is how far full_at is ahead of now and v_every
-- what one request moves it on by, in microseconds, rounded up so that in the long
-- run no minute gives back more than its limit; v_used is how many requests v_ahead
-- is. Plans count tokens of what is priced by them.
--
-- A plan of execution depends on nothing in a batch but its size: without the
-- first setting, small batches are planned anew each time. It is kept for as long as
-- the connection lives: without the others, one that was made while a table was
-- empty would read all of it when it no longer is.
--
-- The first evaluation of an expression in a call costs more than the next dozen together. So
-- keys without terms, budget and caps (NOT k.bounded), which are most, take a path with few
-- expressions: arrays begin as NULL, and what bounded keys alone need is set for these alone.
CREATE OR REPLACE FUNCTION admit_requests(
    p_request uuid[], p_key uuid[], p_model text[], p_class smallint[], p_zero boolean[], p_billing text[],
    p_amount bigint[], p_prompt bigint[], p_completion bigint[], p_pinned boolean[], p_price uuid[],
    p_tier smallint[], p_images integer[], p_input bigint[], p_output bigint[], p_payout_input bigint[], p_payout_output bigint[],
    p_unit smallint[], p_rates integer[], p_concurrent integer, p_ttl interval)
RETURNS TABLE (
    o_ord integer, o_outcome text, o_account uuid, o_billing text, o_amount bigint, o_price uuid,
    o_input bigint, o_output bigint, o_payout_input bigint, o_payout_output bigint, o_unit smallint,
    o_limit integer, o_remaining integer, o_reset_at timestamptz, o_retry_at timestamptz, o_expires_at timestamptz, o_now timestamptz,
    o_discount smallint, o_priority boolean)
LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = 'off' SET enable_hashjoin = 'off' SET enable_mergejoin = 'off'
AS $$
DECLARE
    k          record;
    h          hold%ROWTYPE;
    w          record;
    i          integer;
    c          integer;
    v_now      timestamptz := now();
    v_accounts uuid[];
    v_known    uuid[];
    v_account  uuid;
    v_free     bigint;
    v_cap      integer;
    v_room     bigint;
    v_admitted integer;
    -- What the account has under way with all of its keys, and how far its rate of
    -- zero-priced models is ahead.
    v_open     integer;
    v_zero     bigint;
    v_stranded integer;
    -- Until when so many have left at once that no further request may begin.
    v_left     timestamptz;
    v_taken    bigint;
    v_limits   integer[];
    v_every    bigint[];
    v_usual    bigint[];
    v_ahead    bigint[];
    v_used     bigint[];
    -- What the caller is told: how far its rate is ahead, and by how much the
    -- request moves it on.
    v_reported bigint;
    v_step     bigint;
    v_touched  boolean[];
    v_decided  integer := 0;
    -- The plan of the account at hand: its limits of whole windows with what is
    -- used of them, then its rate and its places.
    v_utc       timestamp := now() AT TIME ZONE 'UTC';
    v_plan      text;
    v_covers    integer[];
    v_eligible  boolean;
    v_covered   boolean;
    v_units     bigint;
    v_openings  integer;
    v_rate       integer;
    v_rate_every bigint;
    v_rate_ahead bigint;
    v_rate_used  bigint;
    v_places    integer;
    v_taken_up  integer;
    l_kind      text[];
    l_period    text[];
    l_start     date[];
    l_cap       bigint[];
    l_draws     integer[];
    l_used      bigint[];
    l_added     bigint[];
    -- What may still be spent: by the key's budget, by the account's caps of a day and
    -- a month, where there are any. v_pins says which of them count the requests of
    -- the key (see spend_counter), v_counted whether one was counted.
    v_budget    bigint;
    v_start     date;
    v_day       bigint;
    v_month     bigint;
    v_pins      integer;
    v_counted   boolean;
    -- The terms of the account at hand by class; of all classes together they are at 4. k.has_rates
    -- says that there are rates, k.has_class_bounds that there are places or tokens of a day, v_classes
    -- says that terms for classes counted a request, v_bounded that some key was bounded.
    v_classes   boolean;
    v_bounded   boolean;
    v_flags     integer;
    a_limits    integer[];
    a_every     bigint[];
    a_ahead     bigint[];
    a_used      bigint[];
    a_places    integer[];
    a_open      integer[];
    a_cap       bigint[];
    a_tokens    bigint[];
    -- What is to be written: requests admitted (their places in the batch, the places of
    -- their keys, and what they were told), keys with their counts, accounts with their sums,
    -- windows, and what is used of plans. n_flags has the windows of budgets and caps (64),
    -- the discount (16384 times that), whether the plan covers (1), and the class that terms
    -- count (8).
    n_ord       integer[];
    n_request   uuid[];
    n_key       integer[];
    n_flags     integer[];
    n_limit     integer[];
    n_remaining integer[];
    n_reset     timestamptz[];
    k_id        uuid[];
    k_account   uuid[];
    k_plan      text[];
    k_admitted  integer[];
    k_taken     bigint[];
    w_key       uuid[];
    w_class     smallint[];
    w_full      timestamptz[];
    z_account   uuid[];
    z_class     smallint[];
    z_full      timestamptz[];
    c_account   uuid[];
    c_kind      text[];
    c_period    text[];
    c_start     date[];
    c_cap       bigint[];
    c_added     bigint[];
    s_owner     uuid[];
    s_period    text[];
    s_start     date[];
    s_cap       bigint[];
    s_added     bigint[];
    g_account   uuid[];
    g_full      timestamptz[];
    g_opened    integer[];
BEGIN
    -- An acknowledged hold must survive a crash, whatever the server's default.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    o_now := v_now;
    o_expires_at := v_now + p_ttl;
    FOR j IN 1 .. 6 LOOP
        v_usual[j] := (59999999 + greatest(p_rates[j]::bigint, 1)) / greatest(p_rates[j]::bigint, 1);
    END LOOP;

    -- The locks come first and alone: what is read after them is current.
    v_accounts := ARRAY(
        SELECT wallet.account_id FROM wallet
        WHERE wallet.account_id = ANY (ARRAY(SELECT ck.account_id FROM consumer_key ck WHERE ck.id = ANY (p_key)))
        ORDER BY wallet.account_id FOR UPDATE);
    v_stranded := keep_slices_out(v_accounts);
    -- Requests that were admitted before.
    v_known := ARRAY(
        SELECT u.request_id FROM unnest(p_request) AS u (request_id)
        CROSS JOIN LATERAL (SELECT FROM hold WHERE hold.request_id = u.request_id LIMIT 1) known);

    FOR k IN
        SELECT ck.id, ck.account_id, ck.allowed_models, ck.budget, ck.budget_period,
               least(l.day_cap, l.own_day_cap) AS day_cap, least(l.month_cap, l.own_month_cap) AS month_cap,
               wa.posted - wa.held AS free,
               coalesce(l.requests_per_minute, 0) AS override, coalesce(l.account_per_minute, 0) AS account_rate,
               l.class_per_minute, l.class_concurrent, l.class_tokens,
               coalesce(l.account_per_minute > 0, false) OR l.class_per_minute IS NOT NULL AS has_rates,
               num_nonnulls(l.class_concurrent, l.class_tokens) > 0 AS has_class_bounds,
               ck.budget IS NOT NULL OR coalesce(l.account_per_minute > 0 OR l.discount > 0, false)
                   OR num_nonnulls(l.class_per_minute, l.class_concurrent, l.class_tokens,
                       l.day_cap, l.own_day_cap, l.month_cap, l.own_month_cap) > 0 AS bounded,
               cardinality(ck.allowed_models) > 0 AS has_model_list, a.state = 'frozen' AS frozen,
               CASE WHEN ck.state = 'revoked' THEN 'key_revoked' WHEN ck.expires_at <= v_now THEN 'key_expired' END AS refusal,
               coalesce(l.discount, 0::smallint) AS discount, coalesce(l.priority, false) AS priority,
               coalesce(nullif(l.concurrent_requests, 0), p_concurrent) AS cap, ap.plan_id, u.ords
        FROM (SELECT u.key_id, array_agg(u.ord::integer ORDER BY u.request_id, u.ord) AS ords
              FROM unnest(p_request, p_key) WITH ORDINALITY AS u (request_id, key_id, ord) GROUP BY u.key_id) u
        JOIN consumer_key ck ON ck.id = u.key_id
        JOIN account a ON a.id = ck.account_id
        JOIN wallet wa ON wa.account_id = ck.account_id
        LEFT JOIN account_limits l ON l.account_id = ck.account_id
        LEFT JOIN account_plan ap ON ap.account_id = ck.account_id AND ap.from_at <= v_now
            AND (ap.until_at IS NULL OR ap.until_at > v_now)
        WHERE ck.account_id = ANY (v_accounts)
        ORDER BY ck.account_id, ck.id
    LOOP
        IF v_account IS DISTINCT FROM k.account_id THEN
            v_account := k.account_id;
            v_free := k.free;
            -- A key that ended longer ago has nothing under way.
            SELECT coalesce(sum(f.n), 0) INTO v_open
            FROM consumer_key ck JOIN key_inflight f ON f.key_id = ck.id
            WHERE ck.account_id = v_account AND coalesce(least(ck.revoked_at, ck.expires_at), 'infinity'::timestamptz) > v_now - interval '1 day';
            IF v_stranded > 0 THEN
                v_open := v_open
                    + (SELECT coalesce(sum(s.places), 0) FROM slice s WHERE s.account_id = v_account AND s.state = 'stranded');
            END IF;
            SELECT coalesce(max((extract(epoch FROM r.full_at - v_now) * 1000000)::bigint) FILTER (WHERE r.class = 4), 0),
                   max(r.full_at - interval '58 seconds')
                       FILTER (WHERE r.class = 7 AND r.full_at > v_now + interval '58 seconds')
            INTO v_zero, v_left FROM account_rate r
            WHERE r.account_id = v_account AND r.full_at > v_now AND r.full_at < v_now + interval '2 minutes';
            IF k.has_rates THEN
                -- 0 and -1 are none.
                a_limits := coalesce(k.class_per_minute, array_fill(0, ARRAY[6]));
                a_limits[4] := k.account_rate;
                a_ahead := array_fill(0::bigint, ARRAY[6]);
                a_used := a_ahead;
                FOR j IN 1 .. 6 LOOP
                    a_every[j] := (59999999 + greatest(a_limits[j]::bigint, 1)) / greatest(a_limits[j]::bigint, 1);
                END LOOP;
                FOR w IN SELECT r.class - 10 AS class, (extract(epoch FROM r.full_at - v_now) * 1000000)::bigint AS ahead
                         FROM account_rate r WHERE r.account_id = v_account AND r.class > 10 AND r.full_at > v_now
                             AND r.full_at < v_now + interval '2 minutes' LOOP
                    a_ahead[w.class] := w.ahead;
                    a_used[w.class] := (w.ahead + a_every[w.class] - 1) / a_every[w.class];
                END LOOP;
            END IF;
            IF k.has_class_bounds THEN
                a_places := coalesce(k.class_concurrent, array_fill(0, ARRAY[6]));
                a_cap := coalesce(k.class_tokens, array_fill(0::bigint, ARRAY[6]));
                SELECT array_agg(coalesce(g.open, 0) ORDER BY u.class), array_agg(coalesce(t.used, 0) ORDER BY u.class)
                INTO a_open, a_tokens
                FROM generate_series(1, 6) AS u (class)
                LEFT JOIN category_gate g ON g.account_id = v_account AND g.class = u.class::smallint
                LEFT JOIN category_tokens t ON t.account_id = v_account AND t.class = u.class::smallint AND t.day = v_utc::date;
            END IF;
            IF k.day_cap IS NOT NULL THEN
                v_day := k.day_cap - coalesce((SELECT s.spent + s.held FROM spend_counter s
                    WHERE s.owner_id = v_account AND s.period = 'day' AND s.window_start = v_utc::date), 0);
            END IF;
            IF k.month_cap IS NOT NULL THEN
                v_month := k.month_cap - coalesce((SELECT s.spent + s.held FROM spend_counter s WHERE s.owner_id = v_account
                    AND s.period = 'month' AND s.window_start = date_trunc('month', v_utc)::date), 0);
            END IF;
            v_plan := k.plan_id;
            IF v_plan IS NOT NULL THEN
                SELECT coalesce(array_agg(l.kind), '{}'), coalesce(array_agg(l.period), '{}'),
                       coalesce(array_agg(date_trunc(l.period, v_utc)::date), '{}'),
                       coalesce(array_agg(CASE WHEN l.enabled THEN l.cap END), '{}'),
                       coalesce(array_agg(coalesce((SELECT bit_or(1 << t) FROM unnest(coalesce(l.draws, l.tiers)) t), 0)), '{}'),
                       coalesce(array_agg(coalesce(pc.used, 0)), '{}')
                INTO l_kind, l_period, l_start, l_cap, l_draws, l_used
                FROM plan_limit l
                LEFT JOIN plan_counter pc ON pc.account_id = v_account AND pc.kind = l.kind AND pc.period = l.period
                    AND pc.window_start = date_trunc(l.period, v_utc)::date
                WHERE l.plan_id = v_plan AND l.period IN ('day', 'week', 'month');
                -- An allowance that is on is what covers, also tiers that do not
                -- draw on it, and only what the plan counts: images when they have
                -- a limit or a list price, audio when it has a list price.
                SELECT ARRAY[a.tokens | a.list_price, (a.tokens | a.list_price) & (a.images | a.list_price), a.list_price]
                INTO v_covers
                FROM (SELECT coalesce(bit_or(1 << t) FILTER (WHERE l.kind = 'tokens'), 0) AS tokens,
                             coalesce(bit_or(1 << t) FILTER (WHERE l.kind = 'images'), 0) AS images,
                             coalesce(bit_or(1 << t) FILTER (WHERE l.kind = 'list_price'), 0) AS list_price
                      FROM plan_limit l CROSS JOIN unnest(l.tiers) t WHERE l.plan_id = v_plan AND l.enabled) a;
                SELECT min(l.cap) FILTER (WHERE l.period = 'minute'), min(l.cap) FILTER (WHERE l.kind = 'concurrent')
                INTO v_rate, v_places
                FROM plan_limit l WHERE l.plan_id = v_plan AND l.enabled AND l.period IN ('minute', 'none');
                SELECT CASE WHEN g.full_at < v_now + interval '2 minutes'
                    THEN greatest(extract(epoch FROM g.full_at - v_now) * 1000000, 0)::bigint END, g.open INTO v_rate_ahead, v_taken_up
                FROM plan_gate g WHERE g.account_id = v_account;
                v_taken_up := coalesce(v_taken_up, 0);
                v_rate_ahead := coalesce(v_rate_ahead, 0);
                v_rate_every := (59999999 + greatest(v_rate, 1)) / greatest(v_rate, 1);
                v_rate_used := (v_rate_ahead + v_rate_every - 1) / v_rate_every;
            END IF;
        END IF;
        v_openings := 0;
        IF v_plan IS NOT NULL THEN
            l_added := array_fill(NULL::bigint, ARRAY[cardinality(l_kind)]);
        END IF;
        -- Without limit is still within what key_inflight can count.
        v_cap := least(coalesce(nullif(k.cap, -1), 1000000), 1000000);
        v_admitted := 0;
        v_taken := 0;
        v_touched := ARRAY[false, false, false, false, false, false];
        v_used := ARRAY[0, 0, 0, 0, 0, 0];
        v_ahead := ARRAY[0, 0, 0, 0, 0, 0];
        -- NULL is without limit. An account's own limit replaces those of the
        -- categories; for the zero-priced models the stricter one holds.
        v_limits := p_rates;
        v_every := v_usual;
        IF k.override <> 0 THEN
            v_limits := array_fill(nullif(k.override, -1), ARRAY[6]);
            v_limits[4] := CASE WHEN k.override > 0 THEN least(k.override, p_rates[4]) END;
            v_every := array_fill((59999999 + greatest(k.override, 1)::bigint) / greatest(k.override, 1), ARRAY[6]);
            v_every[4] := (59999999 + greatest(v_limits[4]::bigint, 1)) / greatest(v_limits[4]::bigint, 1);
        END IF;
        IF k.bounded THEN
            v_bounded := true;
            v_counted := false;
            v_pins := CASE WHEN k.day_cap IS NULL THEN 0 ELSE 16 END + CASE WHEN k.month_cap IS NULL THEN 0 ELSE 32 END;
            IF k.budget IS NOT NULL THEN
                v_pins := v_pins + CASE k.budget_period WHEN 'none' THEN 1 WHEN 'day' THEN 2 WHEN 'week' THEN 4 ELSE 8 END;
                v_start := CASE k.budget_period WHEN 'none' THEN date '1970-01-01' ELSE date_trunc(k.budget_period, v_utc)::date END;
                v_budget := k.budget - coalesce((SELECT s.spent + s.held FROM spend_counter s
                    WHERE s.owner_id = k.id AND s.period = k.budget_period AND s.window_start = v_start), 0);
            END IF;
            IF k.class_per_minute IS NOT NULL AND k.override = 0 THEN
                FOR j IN 1 .. 6 LOOP
                    IF j <> 4 AND a_limits[j] <> 0 THEN
                        v_limits[j] := NULL;
                    END IF;
                END LOOP;
            END IF;
        END IF;
        o_discount := k.discount;
        o_priority := k.priority;
        IF num_nonnulls(VARIADIC v_limits) > 0 THEN
            -- A clock that is set back a little finds more used, and lets nobody
            -- begin twice. What is further ahead than any limit reaches is of
            -- another time, and nobody waits for it.
            FOR w IN SELECT r.class, (extract(epoch FROM r.full_at - v_now) * 1000000)::bigint AS ahead FROM key_rate r
                     WHERE r.key_id = k.id AND r.class <> 4 AND r.full_at > v_now AND r.full_at < v_now + interval '2 minutes' LOOP
                v_ahead[w.class] := w.ahead;
                v_used[w.class] := (w.ahead + v_every[w.class] - 1) / v_every[w.class];
            END LOOP;
            v_ahead[4] := v_zero;
            v_used[4] := (v_zero + v_every[4] - 1) / v_every[4];
        END IF;

        v_decided := v_decided + cardinality(k.ords);
        o_account := k.account_id;
        FOREACH i IN ARRAY k.ords LOOP
            o_ord := i;
            o_billing := p_billing[i]; o_amount := p_amount[i]; o_price := p_price[i];
            o_input := p_input[i]; o_output := p_output[i];
            o_payout_input := p_payout_input[i]; o_payout_output := p_payout_output[i]; o_unit := p_unit[i];
            o_limit := 0; o_remaining := 0; o_reset_at := v_now; o_retry_at := v_now;
            v_reported := NULL;

            IF p_request[i] = ANY (n_request) THEN
                -- Admitted further up in this batch.
                c := array_position(n_request, p_request[i]);
                o_limit := n_limit[c]; o_remaining := n_remaining[c]; o_reset_at := n_reset[c];
                c := n_ord[c];
                o_outcome := CASE WHEN p_key[c] = k.id AND p_model[c] = p_model[i] THEN 'repeated' ELSE 'reused' END;
                o_price := p_price[c];
                o_discount := n_flags[array_position(n_ord, c)] >> 6 & 16383;
                IF n_flags[array_position(n_ord, c)] & 1048576 = 0 THEN
                    o_billing := p_billing[c]; o_amount := p_amount[c];
                ELSE
                    o_billing := 'plan'; o_amount := 0;
                END IF;
                o_input := p_input[c]; o_output := p_output[c];
                o_payout_input := p_payout_input[c]; o_payout_output := p_payout_output[c]; o_unit := p_unit[c];
                RETURN NEXT;
                o_discount := k.discount;
                CONTINUE;
            ELSIF p_request[i] = ANY (v_known) THEN
                SELECT * INTO STRICT h FROM hold WHERE hold.request_id = p_request[i];
                o_outcome := CASE WHEN h.key_id = k.id AND h.model_id = p_model[i] THEN 'repeated' ELSE 'reused' END;
                o_billing := h.billing_type; o_amount := h.amount; o_price := h.price_version_id;
                o_input := h.input_rate; o_output := h.output_rate;
                o_payout_input := h.payout_input_rate; o_payout_output := h.payout_output_rate; o_unit := h.unit;
                o_limit := h.rate_limit; o_remaining := h.rate_remaining; o_reset_at := h.rate_reset_at;
                o_expires_at := h.expires_at;
                o_discount := h.discount;
                RETURN NEXT;
                o_discount := k.discount;
                o_expires_at := v_now + p_ttl;
                CONTINUE;
            END IF;

            -- c is the class that leaves the least room.
            c := p_class[i];
            IF p_zero[i] AND (v_limits[c] IS NULL OR v_limits[4] - v_used[4] < v_limits[c] - v_used[c]) THEN
                c := 4;
            END IF;
            v_room := v_limits[c] - v_used[c];
            IF v_room IS NOT NULL THEN
                o_limit := v_limits[c];
                o_remaining := greatest(v_room, 0);
                v_reported := v_ahead[c];
                v_step := v_every[c];
            END IF;
            IF k.has_rates THEN
                FOREACH c IN ARRAY ARRAY[p_class[i]::integer, 4] LOOP
                    CONTINUE WHEN a_limits[c] <= 0 OR v_room <= a_limits[c] - a_used[c];
                    v_room := a_limits[c] - a_used[c];
                    o_limit := a_limits[c];
                    o_remaining := greatest(v_room, 0);
                    v_reported := a_ahead[c];
                    v_step := a_every[c];
                END LOOP;
            END IF;

            -- Whether the plan covers is decided here and for good: all of the
            -- request, or none of it.
            v_eligible := v_plan IS NOT NULL AND NOT p_pinned[i] AND NOT p_zero[i] AND v_covers[p_unit[i] + 1] & (1 << p_tier[i]) <> 0;
            v_covered := v_eligible;
            IF v_eligible THEN
                FOR j IN 1 .. cardinality(l_kind) LOOP
                    CONTINUE WHEN l_draws[j] & (1 << p_tier[i]) = 0;
                    v_units := CASE l_kind[j] WHEN 'requests' THEN 1 WHEN 'images' THEN p_images[i]
                        WHEN 'tokens' THEN CASE p_unit[i] WHEN 0 THEN p_prompt[i] + p_completion[i] ELSE 0 END ELSE p_amount[i] END;
                    v_covered := v_covered AND coalesce(v_units = 0 OR l_used[j] + v_units <= l_cap[j], true);
                END LOOP;
            END IF;
            IF v_covered AND v_rate IS NOT NULL AND (v_room IS NULL OR v_rate - v_rate_used < v_room) THEN
                o_limit := v_rate;
                o_remaining := greatest(v_rate - v_rate_used, 0);
                v_reported := v_rate_ahead;
                v_step := v_rate_every;
            END IF;
            IF v_reported IS NOT NULL THEN
                o_reset_at := v_now + v_reported * interval '1 microsecond';
                o_retry_at := v_now + greatest(v_reported - (o_limit - 1) * v_step, 0) * interval '1 microsecond';
            END IF;

            IF k.discount > 0 AND NOT v_covered THEN
                p_amount[i] := p_amount[i] - (p_amount[i] / 10000 * k.discount + p_amount[i] % 10000 * k.discount / 10000);
                o_amount := p_amount[i];
            END IF;

            o_outcome := CASE
                WHEN k.refusal IS NOT NULL THEN k.refusal
                WHEN k.has_model_list AND p_model[i] <> ALL (k.allowed_models) THEN 'model_not_allowed'
                WHEN k.frozen THEN 'account_frozen'
                WHEN v_left IS NOT NULL THEN 'left_often'
                WHEN v_room <= 0 THEN 'rate_limited'
                WHEN v_open >= v_cap THEN 'too_many_open'
                WHEN k.has_class_bounds AND a_places[p_class[i]] > 0 AND a_open[p_class[i]] >= a_places[p_class[i]] THEN 'category_too_many_open'
                WHEN k.has_class_bounds AND a_cap[p_class[i]] > 0 AND p_unit[i] = 0
                    AND a_tokens[p_class[i]] + p_prompt[i] + p_completion[i] > a_cap[p_class[i]] THEN 'category_tokens_short'
                WHEN v_covered AND v_rate_used >= v_rate THEN 'plan_rate_limited'
                WHEN v_covered AND v_taken_up >= v_places THEN 'plan_too_many_open'
                WHEN v_covered OR NOT k.bounded AND p_amount[i] <= v_free THEN 'admitted'
                -- What costs nothing is not bounded by what may be spent.
                WHEN k.budget IS NOT NULL AND p_amount[i] > greatest(v_budget, 0) THEN 'key_budget_short'
                WHEN k.day_cap IS NOT NULL AND p_amount[i] > greatest(v_day, 0) THEN 'day_cap_short'
                WHEN k.month_cap IS NOT NULL AND p_amount[i] > greatest(v_month, 0) THEN 'month_cap_short'
                WHEN p_amount[i] <= v_free THEN 'admitted'
                WHEN v_eligible THEN 'plan_short'
                ELSE 'credit_short'
            END;
            IF o_outcome <> 'admitted' THEN
                IF o_outcome = 'left_often' THEN
                    o_retry_at := v_left;
                ELSIF o_outcome = 'category_tokens_short' THEN
                    o_retry_at := (v_utc::date + 1)::timestamp AT TIME ZONE 'UTC';
                ELSIF o_outcome IN ('key_budget_short', 'day_cap_short', 'month_cap_short') THEN
                    -- When a new window begins; now for a budget that has but one.
                    o_retry_at := coalesce(CASE o_outcome
                        WHEN 'day_cap_short' THEN (v_utc::date + 1)::timestamp
                        WHEN 'month_cap_short' THEN date_trunc('month', v_utc) + interval '1 month'
                        ELSE CASE k.budget_period WHEN 'day' THEN (v_utc::date + 1)::timestamp
                            WHEN 'week' THEN date_trunc('week', v_utc) + interval '7 days'
                            WHEN 'month' THEN date_trunc('month', v_utc) + interval '1 month' END
                        END AT TIME ZONE 'UTC', v_now);
                END IF;
                RETURN NEXT;
                CONTINUE;
            END IF;

            v_admitted := v_admitted + 1;
            v_open := v_open + 1;
            IF v_covered THEN
                o_billing := 'plan';
                o_amount := 0;
                v_openings := v_openings + 1;
                v_taken_up := v_taken_up + 1;
                v_rate_used := v_rate_used + 1;
                IF v_rate IS NOT NULL THEN
                    v_rate_ahead := v_rate_ahead + v_rate_every;
                END IF;
                FOR j IN 1 .. cardinality(l_kind) LOOP
                    CONTINUE WHEN l_draws[j] & (1 << p_tier[i]) = 0;
                    v_units := CASE l_kind[j] WHEN 'requests' THEN 1 WHEN 'images' THEN p_images[i]
                        WHEN 'tokens' THEN CASE p_unit[i] WHEN 0 THEN p_prompt[i] + p_completion[i] ELSE 0 END ELSE p_amount[i] END;
                    l_used[j] := l_used[j] + v_units;
                    l_added[j] := coalesce(l_added[j], 0) + v_units;
                END LOOP;
            END IF;
            IF k.bounded THEN
                v_flags := CASE WHEN v_covered THEN 1048576 ELSE 0 END;
                IF NOT v_covered AND NOT p_zero[i] THEN
                    v_flags := v_flags + v_pins + 64 * k.discount;
                    v_counted := v_pins > 0;
                    -- Where the key or the account has no such bound, nobody reads it.
                    v_budget := v_budget - o_amount;
                    v_day := v_day - o_amount;
                    v_month := v_month - o_amount;
                END IF;
                IF k.has_rates THEN
                    FOREACH c IN ARRAY ARRAY[p_class[i]::integer, 4] LOOP
                        CONTINUE WHEN a_limits[c] <= 0;
                        a_used[c] := a_used[c] + 1;
                        a_ahead[c] := a_ahead[c] + a_every[c];
                        z_account := z_account || k.account_id;
                        z_class := z_class || (10 + c)::smallint;
                        z_full := z_full || v_now + a_ahead[c] * interval '1 microsecond';
                    END LOOP;
                END IF;
                IF k.has_class_bounds AND (a_places[p_class[i]] > 0 OR a_cap[p_class[i]] > 0) THEN
                    a_open[p_class[i]] := a_open[p_class[i]] + 1;
                    IF p_unit[i] = 0 THEN
                        a_tokens[p_class[i]] := a_tokens[p_class[i]] + p_prompt[i] + p_completion[i];
                    END IF;
                    v_flags := v_flags + 2097152 * p_class[i];
                    v_classes := true;
                END IF;
                n_flags := n_flags || v_flags;
            ELSE
                n_flags := n_flags || CASE WHEN v_covered THEN 1048576 ELSE 0 END;
            END IF;
            v_taken := v_taken + o_amount;
            v_free := v_free - o_amount;
            v_used[p_class[i]] := v_used[p_class[i]] + 1;
            v_ahead[p_class[i]] := v_ahead[p_class[i]] + v_every[p_class[i]];
            v_touched[p_class[i]] := true;
            IF p_zero[i] THEN
                v_used[4] := v_used[4] + 1;
                v_ahead[4] := v_ahead[4] + v_every[4];
                v_touched[4] := true;
            END IF;
            IF v_reported IS NOT NULL THEN
                o_remaining := greatest(o_remaining - 1, 0);
                o_reset_at := o_reset_at + v_step * interval '1 microsecond';
            END IF;
            n_ord := n_ord || i;
            n_request := n_request || p_request[i];
            n_key := n_key || coalesce(cardinality(k_id), 0) + 1;
            n_limit := n_limit || o_limit;
            n_remaining := n_remaining || o_remaining;
            n_reset := n_reset || o_reset_at;
            RETURN NEXT;
        END LOOP;

        CONTINUE WHEN v_admitted = 0;
        k_id := k_id || k.id;
        k_account := k_account || k.account_id;
        k_plan := array_append(k_plan, v_plan);
        k_admitted := k_admitted || v_admitted;
        k_taken := k_taken || v_taken;
        IF k.bounded AND v_counted THEN
            IF k.budget IS NOT NULL THEN
                s_owner := s_owner || k.id; s_period := s_period || k.budget_period; s_start := s_start || v_start;
                s_cap := s_cap || k.budget; s_added := s_added || v_taken;
            END IF;
            IF k.day_cap IS NOT NULL THEN
                s_owner := s_owner || k.account_id; s_period := s_period || 'day'::text; s_start := s_start || v_utc::date;
                s_cap := s_cap || k.day_cap; s_added := s_added || v_taken;
            END IF;
            IF k.month_cap IS NOT NULL THEN
                s_owner := s_owner || k.account_id; s_period := s_period || 'month'::text;
                s_start := s_start || date_trunc('month', v_utc)::date;
                s_cap := s_cap || k.month_cap; s_added := s_added || v_taken;
            END IF;
        END IF;
        IF v_touched[4] AND v_limits[4] IS NOT NULL THEN
            v_zero := v_ahead[4];
            z_account := z_account || k.account_id;
            z_class := z_class || 4::smallint;
            z_full := z_full || v_now + v_zero * interval '1 microsecond';
        END IF;
        FOR j IN 1 .. 6 LOOP
            IF j <> 4 AND v_touched[j] AND v_limits[j] IS NOT NULL THEN
                w_key := w_key || k.id;
                w_class := w_class || j::smallint;
                w_full := w_full || v_now + v_ahead[j] * interval '1 microsecond';
            END IF;
        END LOOP;
        CONTINUE WHEN v_openings = 0;
        g_account := g_account || k.account_id;
        g_full := g_full || v_now + v_rate_ahead * interval '1 microsecond';
        g_opened := g_opened || v_openings;
        FOR j IN 1 .. cardinality(l_kind) LOOP
            -- An estimate of nothing has its counter, too: more may come.
            CONTINUE WHEN l_added[j] IS NULL;
            c_account := c_account || k.account_id;
            c_kind := c_kind || l_kind[j];
            c_period := c_period || l_period[j];
            c_start := c_start || l_start[j];
            c_cap := array_append(c_cap, l_cap[j]);
            c_added := c_added || l_added[j];
        END LOOP;
    END LOOP;

    IF cardinality(n_ord) > 0 THEN
        INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
            max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate,
            payout_output_rate, rate_limit, rate_remaining, rate_reset_at, expires_at,
            unit, images, plan_id, plan_tier, plan_day, plan_price, spend_pins, spend_day, discount, counted_class)
        SELECT n.request_id, k_account[n.key], p_key[n.ord], p_model[n.ord],
            CASE WHEN n.flags & 1048576 = 0 THEN p_billing[n.ord] ELSE 'plan' END,
            CASE WHEN n.flags & 1048576 = 0 THEN p_amount[n.ord] ELSE 0 END, p_prompt[n.ord],
            p_completion[n.ord], p_pinned[n.ord], p_price[n.ord], p_input[n.ord], p_output[n.ord], p_payout_input[n.ord],
            p_payout_output[n.ord], n.rate_limit, n.rate_remaining, n.rate_reset_at, v_now + p_ttl,
            p_unit[n.ord], p_images[n.ord], CASE WHEN n.flags & 1048576 <> 0 THEN k_plan[n.key] END,
            CASE WHEN n.flags & 1048576 <> 0 THEN p_tier[n.ord] END,
            CASE WHEN n.flags & 1048576 <> 0 THEN v_utc::date END, CASE WHEN n.flags & 1048576 <> 0 THEN p_amount[n.ord] END,
            nullif(n.flags & 63, 0), CASE WHEN n.flags & 63 <> 0 THEN v_utc::date END,
            n.flags >> 6 & 16383, nullif(n.flags >> 21, 0)
        FROM unnest(n_ord, n_request, n_key, n_flags, n_limit, n_remaining, n_reset)
            AS n (ord, request_id, key, flags, rate_limit, rate_remaining, rate_reset_at)
        ORDER BY n.request_id
        ON CONFLICT (request_id) DO NOTHING;
        GET DIAGNOSTICS c = ROW_COUNT;
        IF c <> cardinality(n_ord) THEN
            RAISE EXCEPTION 'a request of the batch was admitted for another account meanwhile'
                USING ERRCODE = 'serialization_failure';
        END IF;
        -- Their wallets are locked, so in any order.
        UPDATE key_inflight f SET n = f.n + u.admitted
        FROM unnest(k_id, k_admitted) AS u (id, admitted) WHERE f.key_id = u.id;
        UPDATE wallet SET held = wallet.held + t.taken
        FROM (SELECT u.account_id, sum(u.taken)::bigint AS taken FROM unnest(k_account, k_taken) AS u (account_id, taken)
            GROUP BY u.account_id HAVING sum(u.taken) > 0) t
        WHERE wallet.account_id = t.account_id;
        IF v_bounded THEN
            IF v_classes THEN
                -- Also where a term bounds but one of the two, because it may come to bound both.
                INSERT INTO category_gate AS g (account_id, class, open)
                    SELECT k_account[n.key], n.flags >> 21, count(*) FROM unnest(n_key, n_flags) AS n (key, flags)
                    WHERE n.flags >= 2097152 GROUP BY 1, 2
                    ON CONFLICT (account_id, class) DO UPDATE SET open = g.open + excluded.open;
                -- category_tokens_cap is the second lock; the first is the wallet's.
                INSERT INTO category_tokens AS t (account_id, class, day, used, cap)
                    SELECT k_account[n.key], n.flags >> 21, v_utc::date,
                        sum(CASE p_unit[n.ord] WHEN 0 THEN p_prompt[n.ord] + p_completion[n.ord] ELSE 0 END)::bigint,
                        nullif(max(l.class_tokens[n.flags >> 21]), 0)
                    FROM unnest(n_ord, n_key, n_flags) AS n (ord, key, flags)
                    JOIN account_limits l ON l.account_id = k_account[n.key]
                    WHERE n.flags >= 2097152 GROUP BY 1, 2
                    ON CONFLICT (account_id, class, day) DO UPDATE SET used = t.used + excluded.used,
                        cap = CASE excluded.used WHEN 0 THEN t.cap ELSE excluded.cap END,
                        excess = CASE excluded.used WHEN 0 THEN t.excess ELSE 0 END;
            END IF;
            IF cardinality(s_owner) > 0 THEN
                -- spend_counter_cap is the second lock; the first is the wallet's.
                INSERT INTO spend_counter AS s (owner_id, period, window_start, held, cap)
                    SELECT u.owner_id, u.period, u.window_start, sum(u.added)::bigint, max(u.cap)
                    FROM unnest(s_owner, s_period, s_start, s_added, s_cap) AS u (owner_id, period, window_start, added, cap)
                    GROUP BY u.owner_id, u.period, u.window_start
                    ON CONFLICT (owner_id, period, window_start) DO UPDATE SET held = s.held + excluded.held,
                        cap = CASE excluded.held WHEN 0 THEN s.cap ELSE excluded.cap END,
                        excess = CASE excluded.held WHEN 0 THEN s.excess ELSE 0 END;
            END IF;
        END IF;
        IF cardinality(w_key) > 0 THEN
            INSERT INTO key_rate (key_id, class, full_at)
                SELECT * FROM unnest(w_key, w_class, w_full)
                ON CONFLICT (key_id, class) DO UPDATE SET full_at = excluded.full_at;
        END IF;
        IF cardinality(z_account) > 0 THEN
            INSERT INTO account_rate (account_id, class, full_at)
                SELECT u.account_id, u.class, max(u.full_at)
                FROM unnest(z_account, z_class, z_full) AS u (account_id, class, full_at) GROUP BY u.account_id, u.class
                ON CONFLICT (account_id, class) DO UPDATE SET full_at = excluded.full_at;
        END IF;
        IF cardinality(g_account) > 0 THEN
            INSERT INTO plan_gate AS g (account_id, full_at, open)
                SELECT u.account_id, max(u.full_at), sum(u.opened)
                FROM unnest(g_account, g_full, g_opened) AS u (account_id, full_at, opened) GROUP BY u.account_id
                ON CONFLICT (account_id) DO UPDATE SET full_at = excluded.full_at, open = g.open + excluded.open;
            -- The condition is the second lock; the first is the wallet's.
            WITH added AS (
                SELECT u.account_id, u.kind, u.period, u.window_start, sum(u.added)::bigint AS used, max(u.cap) AS cap
                FROM unnest(c_account, c_kind, c_period, c_start, c_cap, c_added) AS u (account_id, kind, period, window_start, cap, added)
                GROUP BY u.account_id, u.kind, u.period, u.window_start
            ), counted AS (
                INSERT INTO plan_counter AS pc (account_id, kind, period, window_start, used, cap)
                SELECT * FROM added
                ON CONFLICT (account_id, kind, period, window_start)
                    DO UPDATE SET used = pc.used + excluded.used, cap = CASE excluded.used WHEN 0 THEN pc.cap ELSE excluded.cap END
                    WHERE excluded.used = 0 OR excluded.cap IS NULL OR pc.used + excluded.used <= excluded.cap
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM added) - (SELECT count(*) FROM counted) INTO c;
            IF c <> 0 THEN
                RAISE EXCEPTION 'a counter of a plan was moved by one without the lock on its wallet'
                    USING ERRCODE = 'serialization_failure';
            END IF;
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
            o_input := 0; o_output := 0; o_payout_input := 0; o_payout_output := 0; o_unit := 0;
            o_limit := 0; o_remaining := 0; o_reset_at := v_now; o_retry_at := v_now; o_expires_at := v_now;
            o_discount := 0; o_priority := false;
            RETURN NEXT;
        END LOOP;
    END IF;
END $$;
