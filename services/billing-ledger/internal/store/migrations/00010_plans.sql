-- Token plans: what a plan allows is data, and what is used of it is counted
-- where the request is admitted. Also the end of a key's place with the
-- gateway's word, the freezing of accounts, refunds of requests, and two more
-- classes of models.
--
-- A request is covered by the plan of its account whole or not at all, decided
-- once in admit and pinned on its hold with the day (UTC, by the database's
-- clock), from which every window follows. Everything that counts for a plan is
-- guarded by the lock on the account's wallet, like key_window and key_inflight.

-- +goose Up
CREATE EXTENSION IF NOT EXISTS btree_gist;

CREATE TABLE plan (
    id         text PRIMARY KEY CHECK (id ~ '^[a-z0-9-]{1,32}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- An allowance (tokens, list_price) that is enabled covers models of its tiers;
-- every other limit applies to what is covered. Tiers: 1 free, 2 standard, 3
-- premium. A cap may change and be turned on and off, since all limits count,
-- whether they are on or not. Which limits there are may not: holds refer to
-- them, and another set is another plan.
CREATE TABLE plan_limit (
    plan_id text NOT NULL REFERENCES plan,
    kind    text NOT NULL,
    period  text NOT NULL CHECK (period IN ('minute', 'day', 'week', 'month', 'none')),
    unit    text NOT NULL,
    cap     bigint NOT NULL CHECK (cap BETWEEN 0 AND 1000000000000000000),
    enabled boolean NOT NULL,
    tiers   smallint[] NOT NULL CHECK (cardinality(tiers) > 0 AND tiers <@ ARRAY[1, 2, 3]::smallint[]),
    PRIMARY KEY (plan_id, kind, period),
    CHECK ((kind, unit) IN (('requests', 'request'), ('images', 'image'), ('tokens', 'token'),
        ('list_price', 'nano_usd'), ('concurrent', 'request'))),
    CHECK ((kind = 'concurrent') = (period = 'none')),
    CHECK (period <> 'minute' OR kind = 'requests'),
    CHECK (period NOT IN ('minute', 'none') OR tiers @> ARRAY[1, 2, 3]::smallint[] AND cap <= 1000000)
);

-- +goose StatementBegin
CREATE FUNCTION refuse_used_plan() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM account_plan WHERE plan_id = NEW.plan_id) THEN
        RAISE EXCEPTION 'plan % is in use and takes no further limit', NEW.plan_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER plan_limits_are_whole BEFORE INSERT ON plan_limit FOR EACH ROW EXECUTE FUNCTION refuse_used_plan();
CREATE TRIGGER plan_limits_stay BEFORE DELETE ON plan_limit FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER plan_limits_keep_their_form BEFORE UPDATE ON plan_limit
    FOR EACH ROW WHEN ((NEW.plan_id, NEW.kind, NEW.period, NEW.unit, NEW.tiers)
        IS DISTINCT FROM (OLD.plan_id, OLD.kind, OLD.period, OLD.unit, OLD.tiers))
    EXECUTE FUNCTION refuse_change();

-- Whoever changes the plan of an account has locked its wallet first.
CREATE TABLE account_plan (
    account_id uuid NOT NULL REFERENCES account,
    plan_id    text NOT NULL REFERENCES plan,
    from_at    timestamptz NOT NULL,
    until_at   timestamptz,
    PRIMARY KEY (account_id, from_at),
    CHECK (until_at >= from_at),
    CONSTRAINT one_plan_at_a_time EXCLUDE USING gist (account_id WITH =, tstzrange(from_at, until_at) WITH &&)
);

-- What was decided stays: only the end of a plan moves.
CREATE TRIGGER account_plan_stays BEFORE DELETE ON account_plan FOR EACH ROW EXECUTE FUNCTION refuse_change();

INSERT INTO plan (id) VALUES ('pro');
INSERT INTO plan_limit (plan_id, kind, period, unit, cap, enabled, tiers) VALUES
    ('pro', 'requests',   'day',    'request',  1500,        true,  '{1,2,3}'),
    ('pro', 'images',     'day',    'image',    75,          true,  '{1,2,3}'),
    ('pro', 'requests',   'minute', 'request',  50,          true,  '{1,2,3}'),
    ('pro', 'concurrent', 'none',   'request',  8,           true,  '{1,2,3}'),
    ('pro', 'tokens',     'week',   'token',    40000000,    true,  '{1,2}'),
    ('pro', 'list_price', 'month',  'nano_usd', 24000000000, false, '{1,2}');

-- The requests that a plan covered in one minute, which a new minute takes
-- over, and how many of them are under way.
CREATE TABLE plan_gate (
    account_id uuid PRIMARY KEY REFERENCES account,
    minute     timestamptz NOT NULL CHECK (minute = date_trunc('minute', minute)),
    used       integer NOT NULL CHECK (used >= 0),
    open       integer NOT NULL,
    CONSTRAINT plan_gate_bounds CHECK (open BETWEEN 0 AND 1000000)
) WITH (fillfactor = 70);

-- What is used of one limit in one window; cap is that of the last admission,
-- null while the limit is off. An admission never passes it. What a request
-- turns out to be above its estimate does, is not charged, and stands in excess
-- as far as it went beyond.
CREATE TABLE plan_counter (
    account_id   uuid NOT NULL REFERENCES account,
    kind         text NOT NULL CHECK (kind IN ('requests', 'images', 'tokens', 'list_price')),
    period       text NOT NULL CHECK (period IN ('day', 'week', 'month')),
    window_start date NOT NULL CHECK (window_start = date_trunc(period, window_start::timestamp)::date),
    used         bigint NOT NULL CHECK (used >= 0),
    cap          bigint CHECK (cap >= 0),
    excess       bigint NOT NULL DEFAULT 0 CHECK (excess >= 0),
    PRIMARY KEY (account_id, kind, period, window_start),
    CONSTRAINT plan_counter_within_cap CHECK (used - excess <= cap)
) WITH (fillfactor = 70);

ALTER TABLE hold
    ADD COLUMN images        integer NOT NULL DEFAULT 0 CHECK (images >= 0),
    ADD COLUMN plan_id       text,
    ADD COLUMN plan_tier     smallint,
    ADD COLUMN plan_day      date,
    -- nano-USD at list price, of the estimate.
    ADD COLUMN plan_price    bigint CHECK (plan_price >= 0),
    -- The request and its images were given back to the plan.
    ADD COLUMN plan_refunded boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT hold_billing_type_check,
    DROP CONSTRAINT hold_check3,
    ADD CONSTRAINT hold_billing_type CHECK (billing_type IN ('payg', 'free', 'plan')),
    ADD CONSTRAINT hold_free_is_free CHECK (billing_type <> 'free' OR (input_rate = 0 AND output_rate = 0)),
    ADD CONSTRAINT hold_plan_is_pinned CHECK (
        num_nonnulls(plan_id, plan_tier, plan_day, plan_price) = CASE billing_type WHEN 'plan' THEN 4 ELSE 0 END),
    ADD CONSTRAINT hold_pin_is_payg CHECK (NOT pinned OR billing_type = 'payg'),
    ADD CONSTRAINT hold_refund CHECK (NOT plan_refunded OR billing_type = 'plan' AND state <> 'open');

-- For the checks of plans against what they covered.
CREATE INDEX hold_plan ON hold (account_id, plan_day) WHERE plan_id IS NOT NULL;

-- plan    D x:plan_accrual payout, C l:provider:plan_held payout
-- +goose StatementBegin
DO $$
DECLARE
    t regclass;
BEGIN
    -- The partitions have it of their own as well.
    ALTER TABLE usage_settlement DROP CONSTRAINT usage_settlement_source_check;
    FOR t IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'usage_settlement'::regclass LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS usage_settlement_source_check', t);
    END LOOP;
    ALTER TABLE usage_settlement ADD CONSTRAINT usage_settlement_source_check
        CHECK (source IN ('payg', 'plan', 'free', 'orphan'));
END $$;
-- +goose StatementEnd

-- The place of a request in the concurrency of its key ends with the gateway's
-- witness, or with its hold when that comes first.
UPDATE key_inflight f SET n = f.n - told.n
FROM (SELECT h.key_id, count(*)::integer AS n FROM hold h JOIN witness w USING (request_id) WHERE h.state = 'open' GROUP BY h.key_id) told
WHERE told.key_id = f.key_id;

ALTER TABLE key_window DROP CONSTRAINT key_window_class_check;
-- Classes: 1 llm, 2 multimodal, 3 embedding, 4 all zero-priced models together,
-- 5 image, 6 audio.
ALTER TABLE key_window ADD CONSTRAINT key_window_class_check CHECK (class BETWEEN 1 AND 6);

CREATE TABLE account_state_change (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES account,
    state      text NOT NULL CHECK (state IN ('open', 'frozen')),
    memo       text NOT NULL CHECK (char_length(memo) <= 200),
    at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX account_state_change_account ON account_state_change (account_id, id);
CREATE TRIGGER account_state_change_stays BEFORE UPDATE OR DELETE ON account_state_change
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- An account is in the state of its last change; without one it is open.
-- +goose StatementBegin
CREATE FUNCTION check_account_state() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_account uuid := CASE TG_TABLE_NAME WHEN 'account' THEN (to_jsonb(NEW) ->> 'id')::uuid ELSE (to_jsonb(NEW) ->> 'account_id')::uuid END;
    v_last    text := (SELECT c.state FROM account_state_change c WHERE c.account_id = v_account ORDER BY c.id DESC LIMIT 1);
BEGIN
    IF (SELECT a.state FROM account a WHERE a.id = v_account) <> coalesce(v_last, 'open') THEN
        RAISE EXCEPTION 'account % is not in the state of its last change', v_account
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_state_is_kept';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER account_state_is_kept AFTER INSERT OR UPDATE OF state ON account
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_account_state();
CREATE CONSTRAINT TRIGGER account_state_change_is_made AFTER INSERT ON account_state_change
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_account_state();

-- A request is refunded once, whoever bears it; business_id is the request.
CREATE UNIQUE INDEX entry_refunds_once ON entry (business_id) WHERE kind IN ('request_refund', 'goodwill_refund');

GRANT SELECT ON plan, plan_limit TO svc_billing;
GRANT SELECT, INSERT ON account_plan, plan_gate, plan_counter, account_state_change TO svc_billing;
GRANT UPDATE (until_at) ON account_plan TO svc_billing;
GRANT UPDATE (minute, used, open) ON plan_gate TO svc_billing;
GRANT UPDATE (used, cap, excess) ON plan_counter TO svc_billing;
GRANT UPDATE (plan_refunded) ON hold TO svc_billing;
GRANT UPDATE (state) ON account TO svc_billing;

-- admit as before (00007), and with plans.
DROP FUNCTION admit(uuid[], uuid[], text[], smallint[], boolean[], text[], bigint[], bigint[], bigint[], boolean[], uuid[],
    bigint[], bigint[], bigint[], bigint[], integer[], integer, interval);
-- +goose StatementBegin
CREATE FUNCTION admit(
    p_request uuid[], p_key uuid[], p_model text[], p_class smallint[], p_zero boolean[], p_billing text[],
    p_amount bigint[], p_prompt bigint[], p_completion bigint[], p_pinned boolean[], p_price uuid[],
    p_tier smallint[], p_images integer[], p_input bigint[], p_output bigint[], p_payout_input bigint[], p_payout_output bigint[],
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
    -- The plan of the account at hand: its limits of whole windows with what is
    -- used of them, then its rate and its places.
    v_utc       timestamp := now() AT TIME ZONE 'UTC';
    v_plan      text;
    v_covers    integer;
    v_eligible  boolean;
    v_covered   boolean;
    v_units     bigint;
    v_openings  integer;
    v_rate      integer;
    v_rate_used integer;
    v_rate_from timestamptz;
    v_places    integer;
    v_taken_up  integer;
    l_kind      text[];
    l_period    text[];
    l_start     date[];
    l_cap       bigint[];
    l_tiers     integer[];
    l_used      bigint[];
    l_added     bigint[];
    -- What is to be written: requests admitted (their places in the batch, and
    -- what they were told), keys with their counts, accounts with their sums,
    -- windows, and what is used of plans.
    n_ord       integer[] := '{}';
    n_request   uuid[] := '{}';
    n_account   uuid[] := '{}';
    n_plan      text[] := '{}';
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
    c_account   uuid[] := '{}';
    c_kind      text[] := '{}';
    c_period    text[] := '{}';
    c_start     date[] := '{}';
    c_cap       bigint[] := '{}';
    c_added     bigint[] := '{}';
    g_account   uuid[] := '{}';
    g_minute    timestamptz[] := '{}';
    g_used      integer[] := '{}';
    g_opened    integer[] := '{}';
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
               coalesce(nullif(l.concurrent_requests, 0), p_concurrent) AS cap, ap.plan_id, u.ords
        FROM (SELECT u.key_id, array_agg(u.ord::integer ORDER BY u.request_id, u.ord) AS ords
              FROM unnest(p_request, p_key) WITH ORDINALITY AS u (request_id, key_id, ord) GROUP BY u.key_id) u
        JOIN consumer_key ck ON ck.id = u.key_id
        JOIN account a ON a.id = ck.account_id
        JOIN wallet wa ON wa.account_id = ck.account_id
        JOIN key_inflight f ON f.key_id = ck.id
        LEFT JOIN account_limits l ON l.account_id = ck.account_id
        LEFT JOIN account_plan ap ON ap.account_id = ck.account_id AND ap.from_at <= v_now
            AND (ap.until_at IS NULL OR ap.until_at > v_now)
        WHERE ck.account_id = ANY (v_accounts)
        ORDER BY ck.account_id, ck.id
    LOOP
        IF v_account IS DISTINCT FROM k.account_id THEN
            v_account := k.account_id;
            v_free := k.free;
            v_plan := k.plan_id;
            IF v_plan IS NOT NULL THEN
                SELECT coalesce(array_agg(l.kind), '{}'), coalesce(array_agg(l.period), '{}'),
                       coalesce(array_agg(date_trunc(l.period, v_utc)::date), '{}'),
                       coalesce(array_agg(CASE WHEN l.enabled THEN l.cap END), '{}'),
                       coalesce(array_agg((SELECT bit_or(1 << t) FROM unnest(l.tiers) t)), '{}'),
                       coalesce(array_agg(coalesce(pc.used, 0)), '{}')
                INTO l_kind, l_period, l_start, l_cap, l_tiers, l_used
                FROM plan_limit l
                LEFT JOIN plan_counter pc ON pc.account_id = v_account AND pc.kind = l.kind AND pc.period = l.period
                    AND pc.window_start = date_trunc(l.period, v_utc)::date
                WHERE l.plan_id = v_plan AND l.period IN ('day', 'week', 'month');
                -- An allowance that is on is what covers.
                SELECT coalesce(bit_or(1 << t), 0) INTO v_covers
                FROM plan_limit l CROSS JOIN unnest(l.tiers) t
                WHERE l.plan_id = v_plan AND l.enabled AND l.kind IN ('tokens', 'list_price');
                SELECT min(l.cap) FILTER (WHERE l.period = 'minute'), min(l.cap) FILTER (WHERE l.kind = 'concurrent')
                INTO v_rate, v_places
                FROM plan_limit l WHERE l.plan_id = v_plan AND l.enabled AND l.period IN ('minute', 'none');
                SELECT g.minute, g.used, g.open INTO v_rate_from, v_rate_used, v_taken_up
                FROM plan_gate g WHERE g.account_id = v_account;
                v_taken_up := coalesce(v_taken_up, 0);
                IF v_rate_from IS NULL OR v_rate_from < v_minute THEN
                    v_rate_from := v_minute;
                    v_rate_used := 0;
                END IF;
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
        v_minutes := ARRAY[v_minute, v_minute, v_minute, v_minute, v_minute, v_minute];
        -- NULL is without limit. An account's own limit replaces those of the
        -- categories; for the zero-priced models the stricter one holds.
        v_limits := CASE k.override WHEN -1 THEN array_fill(NULL::integer, ARRAY[6]) WHEN 0 THEN p_rates
            ELSE array_fill(k.override, ARRAY[6]) END;
        v_limits[4] := CASE k.override WHEN -1 THEN NULL WHEN 0 THEN p_rates[4] ELSE least(k.override, p_rates[4]) END;
        IF num_nonnulls(VARIADIC v_limits) > 0 THEN
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
                o_price := p_price[c];
                IF n_plan[array_position(n_ord, c)] IS NULL THEN
                    o_billing := p_billing[c]; o_amount := p_amount[c];
                ELSE
                    o_billing := 'plan'; o_amount := 0;
                END IF;
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

            -- Whether the plan covers is decided here and for good: all of the
            -- request, or none of it.
            v_eligible := v_plan IS NOT NULL AND NOT p_pinned[i] AND NOT p_zero[i] AND v_covers & (1 << p_tier[i]) <> 0;
            v_covered := v_eligible;
            IF v_eligible THEN
                FOR j IN 1 .. cardinality(l_kind) LOOP
                    CONTINUE WHEN l_tiers[j] & (1 << p_tier[i]) = 0;
                    v_units := CASE l_kind[j] WHEN 'requests' THEN 1 WHEN 'images' THEN p_images[i]
                        WHEN 'tokens' THEN p_prompt[i] + p_completion[i] ELSE p_amount[i] END;
                    v_covered := v_covered AND coalesce(v_units = 0 OR l_used[j] + v_units <= l_cap[j], true);
                END LOOP;
            END IF;
            IF v_covered AND v_rate IS NOT NULL AND (v_room IS NULL OR v_rate - v_rate_used < v_room) THEN
                o_limit := v_rate;
                o_remaining := greatest(v_rate - v_rate_used, 0);
                o_reset_at := v_rate_from + interval '1 minute';
            END IF;

            o_outcome := CASE
                WHEN k.key_state = 'revoked' THEN 'key_revoked'
                WHEN k.expires_at <= v_now THEN 'key_expired'
                WHEN cardinality(k.allowed_models) > 0 AND p_model[i] <> ALL (k.allowed_models) THEN 'model_not_allowed'
                WHEN k.state = 'frozen' THEN 'account_frozen'
                WHEN v_room <= 0 THEN 'rate_limited'
                WHEN k.open + v_admitted >= v_cap THEN 'too_many_open'
                WHEN v_covered AND v_rate_used >= v_rate THEN 'plan_rate_limited'
                WHEN v_covered AND v_taken_up >= v_places THEN 'plan_too_many_open'
                WHEN v_covered OR p_amount[i] <= v_free THEN 'admitted'
                WHEN v_eligible THEN 'plan_short'
                ELSE 'credit_short'
            END;
            IF o_outcome <> 'admitted' THEN
                RETURN NEXT;
                CONTINUE;
            END IF;

            v_admitted := v_admitted + 1;
            IF v_covered THEN
                o_billing := 'plan';
                o_amount := 0;
                v_openings := v_openings + 1;
                v_taken_up := v_taken_up + 1;
                v_rate_used := v_rate_used + 1;
                FOR j IN 1 .. cardinality(l_kind) LOOP
                    CONTINUE WHEN l_tiers[j] & (1 << p_tier[i]) = 0;
                    v_units := CASE l_kind[j] WHEN 'requests' THEN 1 WHEN 'images' THEN p_images[i]
                        WHEN 'tokens' THEN p_prompt[i] + p_completion[i] ELSE p_amount[i] END;
                    l_used[j] := l_used[j] + v_units;
                    l_added[j] := coalesce(l_added[j], 0) + v_units;
                END LOOP;
            END IF;
            v_taken := v_taken + o_amount;
            v_free := v_free - o_amount;
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
            n_plan := array_append(n_plan, CASE WHEN v_covered THEN v_plan END);
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
        FOR j IN 1 .. 6 LOOP
            IF v_touched[j] AND v_limits[j] IS NOT NULL THEN
                w_key := w_key || k.id;
                w_class := w_class || j::smallint;
                w_minute := w_minute || v_minutes[j];
                w_used := w_used || v_used[j];
            END IF;
        END LOOP;
        CONTINUE WHEN v_openings = 0;
        g_account := g_account || k.account_id;
        g_minute := g_minute || v_rate_from;
        g_used := g_used || v_rate_used;
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
            images, plan_id, plan_tier, plan_day, plan_price)
        SELECT n.request_id, n.account_id, p_key[n.ord], p_model[n.ord],
            CASE WHEN n.plan_id IS NULL THEN p_billing[n.ord] ELSE 'plan' END,
            CASE WHEN n.plan_id IS NULL THEN p_amount[n.ord] ELSE 0 END, p_prompt[n.ord],
            p_completion[n.ord], p_pinned[n.ord], p_price[n.ord], p_input[n.ord], p_output[n.ord], p_payout_input[n.ord],
            p_payout_output[n.ord], n.rate_limit, n.rate_remaining, n.rate_reset_at, v_now + p_ttl,
            p_images[n.ord], n.plan_id, CASE WHEN n.plan_id IS NOT NULL THEN p_tier[n.ord] END,
            CASE WHEN n.plan_id IS NOT NULL THEN v_utc::date END, CASE WHEN n.plan_id IS NOT NULL THEN p_amount[n.ord] END
        FROM unnest(n_ord, n_request, n_account, n_plan, n_limit, n_remaining, n_reset)
            AS n (ord, request_id, account_id, plan_id, rate_limit, rate_remaining, rate_reset_at)
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
        IF cardinality(w_key) > 0 THEN
            INSERT INTO key_window AS kw (key_id, class, minute, used)
                SELECT * FROM unnest(w_key, w_class, w_minute, w_used)
                ON CONFLICT (key_id, class) DO UPDATE SET minute = excluded.minute, used = excluded.used;
        END IF;
        IF cardinality(g_account) > 0 THEN
            INSERT INTO plan_gate AS g (account_id, minute, used, open)
                SELECT u.account_id, max(u.minute), max(u.used), sum(u.opened)
                FROM unnest(g_account, g_minute, g_used, g_opened) AS u (account_id, minute, used, opened) GROUP BY u.account_id
                ON CONFLICT (account_id) DO UPDATE SET minute = excluded.minute, used = excluded.used, open = g.open + excluded.open;
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
            o_input := 0; o_output := 0; o_payout_input := 0; o_payout_output := 0;
            o_limit := 0; o_remaining := 0; o_reset_at := v_now; o_expires_at := v_now;
            RETURN NEXT;
        END LOOP;
    END IF;
END $$;
-- +goose StatementEnd

-- A plan of execution depends on nothing in a batch but its size: without the
-- first, small batches are planned anew each time. It is kept for as long as the
-- connection lives: without the others, one that was made while a table was
-- empty would read all of it when it no longer is.
ALTER FUNCTION admit SET plan_cache_mode = 'force_generic_plan';
ALTER FUNCTION admit SET enable_seqscan = 'off';
ALTER FUNCTION admit SET enable_hashjoin = 'off';
ALTER FUNCTION admit SET enable_mergejoin = 'off';
