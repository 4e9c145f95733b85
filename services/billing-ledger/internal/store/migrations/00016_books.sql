-- What the books say of coins and of what a closed month withholds: the daily revaluation
-- of each coin, and which held earnings were held when their month was closed.

-- +goose Up

-- A coin is revalued once a day, on the day itself, by what the books had then: units, and
-- what they stood for. The entry is the difference to what they were worth.
CREATE TABLE revaluation (
    day      date NOT NULL,
    token    text NOT NULL REFERENCES asset,
    units    bigint NOT NULL,
    booked   bigint NOT NULL,
    worth    bigint NOT NULL,
    entry_id uuid NOT NULL UNIQUE,
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, token),
    CONSTRAINT revaluation_changes CHECK (worth <> booked),
    CONSTRAINT revaluation_of_its_day CHECK (day = (at AT TIME ZONE 'UTC')::date)
);

CREATE CONSTRAINT TRIGGER revaluation_is_posted AFTER INSERT ON revaluation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_revaluation();
CREATE CONSTRAINT TRIGGER revaluation_is_known AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.entry_kind = 'revaluation')
    EXECUTE FUNCTION check_revaluation();

GRANT SELECT, INSERT (day, token, units, booked, worth, entry_id) ON revaluation TO svc_billing;

-- Whether a month was closed while the earning was held. Its part of the pool waits for its
-- end. What is held of the month afterwards, or had ended before, has no part that waits.
ALTER TABLE held_earning ADD COLUMN withheld boolean NOT NULL DEFAULT false;

ALTER TABLE held_earning DISABLE TRIGGER USER;
UPDATE held_earning h SET withheld = true FROM closed_month m
    WHERE m.month = h.book AND h.held_at < (m.through + 1)::timestamp AT TIME ZONE 'UTC'
        AND (h.ended_at IS NULL OR h.ended_at > m.closed_at);
ALTER TABLE held_earning ENABLE TRIGGER USER;

CREATE INDEX held_earning_of_month ON held_earning (book, provider_id) WHERE book <> '';

CREATE TRIGGER held_earning_begins_free BEFORE INSERT ON held_earning
    FOR EACH ROW WHEN (NEW.withheld) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER held_earning_stays_withheld BEFORE UPDATE ON held_earning
    FOR EACH ROW WHEN (OLD.withheld AND NOT NEW.withheld) EXECUTE FUNCTION refuse_change();
-- Nothing is withheld after the close, and nothing ends in a transaction that began before
-- the close that withheld it.
CREATE TRIGGER held_earning_withheld_by_close BEFORE UPDATE ON held_earning
    FOR EACH ROW WHEN (NEW.withheld) EXECUTE FUNCTION check_withheld();
CREATE TRIGGER closed_month_begins_last BEFORE INSERT ON closed_month
    FOR EACH ROW EXECUTE FUNCTION check_month_close();
CREATE CONSTRAINT TRIGGER closed_share_withholds AFTER INSERT ON closed_share
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_closed_share();

-- What is posted of a closed month's held earnings is what was ruled of them.
CREATE CONSTRAINT TRIGGER withheld_ends_as_ruled AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('plan_share', 'plan_forfeit', 'plan_unclaimed')
        AND (NEW.account_kind = 'l:provider:plan_held'
            OR NEW.entry_kind = 'plan_unclaimed' AND NEW.account_kind = 'x:plan_accrual'))
    EXECUTE FUNCTION check_withheld_end();

GRANT UPDATE (withheld) ON held_earning TO svc_billing;

-- Operators may also forfeit what is held.
ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check CHECK (action IN ('create_account',
    'grant_credit', 'set_limits', 'set_plan', 'set_state', 'issue_key', 'revoke_key', 'release_earnings',
    'forfeit_earnings'));
