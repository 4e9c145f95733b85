-- What a provider earned by its own owner's requests at the platform's expense,
-- kept from being paid until a person has looked at it.
--
-- Such earnings are accrued like all others, so that the books and what is
-- compared with them stay as they are. What is held is how much of a balance
-- may not leave it: of l:provider:accrued, whose book is '', and of
-- l:provider:plan_held, whose books are months.

-- +goose Up
CREATE TABLE held_earning (
    request_id  uuid PRIMARY KEY,
    -- That of the settled request.
    day         date NOT NULL,
    account_id  uuid NOT NULL REFERENCES account,
    provider_id uuid NOT NULL,
    rule        text NOT NULL CHECK (rule IN ('same_user')),
    -- Of the balance that it is part of.
    book        text NOT NULL,
    payout      bigint NOT NULL CHECK (payout > 0),
    held_at     timestamptz NOT NULL DEFAULT now(),
    -- released    by an operator: it may be paid
    -- refunded    the provider gave it back with the request's refund
    -- forfeited   with all that the provider had earned by plans of the month
    -- reversed    the entry that paid for the orphan work was undone
    ended_as    text CHECK (ended_as IN ('released', 'refunded', 'forfeited', 'reversed')),
    ended_at    timestamptz,
    -- An operator's, or the business id of the entry that ended it.
    reason      text CHECK (char_length(reason) BETWEEN 1 AND 255),
    CONSTRAINT held_earning_ends_whole CHECK (num_nonnulls(ended_as, ended_at, reason) IN (0, 3))
);

CREATE INDEX held_earning_of_provider ON held_earning (provider_id, request_id) INCLUDE (book, payout) WHERE ended_as IS NULL;
CREATE INDEX held_earning_open ON held_earning (request_id) WHERE ended_as IS NULL;

CREATE TRIGGER held_earning_begins_held BEFORE INSERT ON held_earning
    FOR EACH ROW WHEN (NEW.ended_as IS NOT NULL) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER held_earning_ends_once BEFORE UPDATE ON held_earning
    FOR EACH ROW WHEN (OLD.ended_as IS NOT NULL) EXECUTE FUNCTION refuse_change();
CREATE CONSTRAINT TRIGGER held_earning_was_earned AFTER INSERT ON held_earning
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_held_earning();
CREATE CONSTRAINT TRIGGER held_earnings_stay AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.account_kind IN ('l:provider:accrued', 'l:provider:plan_held') AND NEW.amount < 0 AND NEW.asset = 'usd')
    EXECUTE FUNCTION keep_held_earnings();

GRANT SELECT ON held_earning TO svc_billing;
GRANT INSERT (request_id, day, account_id, provider_id, rule, book, payout) ON held_earning TO svc_billing;
GRANT UPDATE (ended_as, ended_at, reason) ON held_earning TO svc_billing;
