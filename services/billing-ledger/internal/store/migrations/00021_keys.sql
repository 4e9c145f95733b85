-- Keys that consumers make for themselves: settings, rotation and last use.
--
-- A rotation gives a key another text and leaves the key itself: whatever counts by key
-- counts both texts. At most one old text is kept, for at most a week.

-- +goose Up
ALTER TABLE consumer_key
    ADD COLUMN include_usage boolean NOT NULL DEFAULT false,
    ADD COLUMN rotated_at    timestamptz,
    ADD COLUMN old_hash      bytea UNIQUE CHECK (octet_length(old_hash) = 32),
    ADD COLUMN old_prefix    text CHECK (char_length(old_prefix) <= 12),
    ADD COLUMN old_until     timestamptz,
    ADD CONSTRAINT consumer_key_old_is_whole CHECK (num_nonnulls(old_hash, old_prefix, old_until) IN (0, 3)),
    ADD CONSTRAINT consumer_key_overlap CHECK (old_until IS NULL
        OR rotated_at IS NOT NULL AND old_until <= rotated_at + interval '7 days');

-- A text gives way to another in a rotation alone, which keeps it as the old one.
CREATE TRIGGER consumer_key_rotates BEFORE UPDATE ON consumer_key
    FOR EACH ROW WHEN (NEW.hash <> OLD.hash AND (NEW.old_hash, NEW.old_prefix) IS DISTINCT FROM (OLD.hash, OLD.prefix))
    EXECUTE FUNCTION refuse_change();

-- For pages of an account's keys, the newest first.
CREATE INDEX consumer_key_page ON consumer_key (account_id, id);

-- When a request of the key last ended, to a minute. It is written with the count, which
-- the same statement changes anyway, so that no request writes one row more.
ALTER TABLE key_inflight ADD COLUMN used_at timestamptz;

-- What may be spent. A key's budget counts what its requests were charged and hold in a
-- window (UTC, weeks as in ISO 8601; 'none' is one window for ever), an account's caps count
-- all of its keys; of an operator's cap and the consumer's own the lower one counts. What a
-- plan covers and what costs nothing is not counted. All amounts are in nano-USD.
ALTER TABLE consumer_key
    ADD COLUMN budget        bigint CHECK (budget BETWEEN 0 AND 1000000000000000000),
    ADD COLUMN budget_period text CHECK (budget_period IN ('none', 'day', 'week', 'month')),
    ADD CONSTRAINT consumer_key_budget_has_a_period CHECK (num_nonnulls(budget, budget_period) IN (0, 2));
ALTER TABLE account_limits
    ADD COLUMN day_cap       bigint CHECK (day_cap BETWEEN 0 AND 1000000000000000000),
    ADD COLUMN month_cap     bigint CHECK (month_cap BETWEEN 0 AND 1000000000000000000),
    ADD COLUMN own_day_cap   bigint CHECK (own_day_cap BETWEEN 0 AND 1000000000000000000),
    ADD COLUMN own_month_cap bigint CHECK (own_month_cap BETWEEN 0 AND 1000000000000000000);

-- A hold is counted where it was admitted: spend_pins names the windows by bits (1 the key's
-- one window, 2, 4 and 8 its day, week and month, 16 and 32 the account's day and month), and
-- all of them follow from spend_day (UTC). Guarded by the lock on the account's wallet.
ALTER TABLE hold
    ADD COLUMN spend_day  date,
    ADD COLUMN spend_pins smallint CHECK (spend_pins BETWEEN 1 AND 63),
    ADD CONSTRAINT hold_spend_is_pinned CHECK (num_nonnulls(spend_day, spend_pins) IN (0, 2));
-- For the checks of counters against what they count.
CREATE INDEX hold_spend ON hold (spend_day) WHERE spend_pins IS NOT NULL;

CREATE TABLE spend_counter (
    -- A key or an account.
    owner_id     uuid NOT NULL,
    period       text NOT NULL CHECK (period IN ('none', 'day', 'week', 'month')),
    window_start date NOT NULL,
    spent        bigint NOT NULL DEFAULT 0,
    held         bigint NOT NULL DEFAULT 0,
    -- What bounded the last admission, and by how much a settled request passed it since.
    cap          bigint NOT NULL,
    excess       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner_id, period, window_start),
    CONSTRAINT spend_counter_bounds CHECK (spent >= 0 AND held >= 0 AND excess >= 0),
    CONSTRAINT spend_counter_cap CHECK (spent + held - excess <= cap),
    CONSTRAINT spend_counter_window CHECK (window_start = CASE period WHEN 'none' THEN date '1970-01-01'
        ELSE date_trunc(period, window_start::timestamp)::date END)
) WITH (fillfactor = 70);

-- Finds the keys of an account that may have requests under way.
CREATE INDEX consumer_key_live ON consumer_key (account_id, coalesce(least(revoked_at, expires_at), 'infinity'::timestamptz));
DROP INDEX consumer_key_of_account;

GRANT SELECT, INSERT, UPDATE (spent, held, cap, excess) ON spend_counter TO svc_billing;
GRANT UPDATE (budget, budget_period) ON consumer_key TO svc_billing;
GRANT UPDATE (day_cap, month_cap, own_day_cap, own_month_cap) ON account_limits TO svc_billing;
GRANT UPDATE (name, allowed_models, expires_at, include_usage, hash, prefix, rotated_at, old_hash, old_prefix, old_until)
    ON consumer_key TO svc_billing;
GRANT UPDATE (used_at) ON key_inflight TO svc_billing;
