-- Token plans: what a plan allows is data, and what is used of it is counted
-- where the request is admitted.
--
-- A request is covered by the plan of its account whole or not at all, decided
-- once in admit and pinned on its hold with the day (UTC, by the database's
-- clock), from which every window follows. Everything that counts for a plan is
-- guarded by the lock on the account's wallet, like key_rate and key_inflight.

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

-- The rate of the requests that a plan covers, as key_rate has it, and how many of
-- them are under way.
CREATE TABLE plan_gate (
    account_id uuid PRIMARY KEY REFERENCES account,
    open       integer NOT NULL,
    full_at    timestamptz NOT NULL,
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

GRANT SELECT ON plan, plan_limit TO svc_billing;
GRANT SELECT, INSERT ON account_plan, plan_gate, plan_counter TO svc_billing;
GRANT UPDATE (until_at) ON account_plan TO svc_billing;
GRANT UPDATE (full_at, open) ON plan_gate TO svc_billing;
GRANT UPDATE (used, cap, excess) ON plan_counter TO svc_billing;
