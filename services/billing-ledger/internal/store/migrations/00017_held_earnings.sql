-- What a provider earned by its own owner's requests at the platform's expense,
-- kept from being paid until a person has looked at it.
--
-- Such earnings are accrued like all others, so that the books and what is
-- compared with them stay as they are. What is held is how much of a balance
-- may not leave it: of l:provider:accrued, whose book is '', and of
-- l:provider:plan_held, whose books are months.

-- +goose Up

-- Which accounts and providers have one owner, and how that is known. Other
-- ties join as further members of a UNION, each with a rule of its own, and all
-- found by account_id in an index.
CREATE VIEW kinship AS
    SELECT account_id, provider_id, 'same_user'::text AS rule FROM app_user WHERE provider_id IS NOT NULL;

-- The accounts that ever had credit which nobody paid for: a bonus, a grant, or
-- something given back at the platform's expense.
CREATE INDEX posting_unpaid_credit ON posting (owner_id)
    WHERE account_kind = 'l:consumer:available' AND amount > 0
        AND entry_kind IN ('deposit_native', 'goodwill', 'goodwill_refund', 'broken_answer');
CREATE VIEW unpaid_credit AS
    SELECT owner_id AS account_id, entry_id FROM posting
    WHERE account_kind = 'l:consumer:available' AND amount > 0
        AND entry_kind IN ('deposit_native', 'goodwill', 'goodwill_refund', 'broken_answer');

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

-- What is held was earned by the request, in the same transaction.
-- +goose StatementBegin
CREATE FUNCTION check_held_earning() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM usage_settlement s WHERE s.day = NEW.day AND s.request_id = NEW.request_id
        AND (s.account_id, s.provider_id, s.payout, s.settled_at) = (NEW.account_id, NEW.provider_id, NEW.payout, NEW.held_at)
        AND NEW.book = CASE s.source WHEN 'plan' THEN to_char(s.day, 'YYYY-MM') ELSE '' END)
    THEN
        RAISE EXCEPTION 'request % did not earn what is held', NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'held_earning_was_earned';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER held_earning_was_earned AFTER INSERT ON held_earning
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_held_earning();

-- What a provider has in USD on an account and in a book: the last snapshot and
-- what was recorded since. It sees what the statement sees that calls it.
-- +goose StatementBegin
CREATE FUNCTION provider_balance(p_kind text, p_provider uuid, p_book text) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    SELECT coalesce((SELECT balance FROM balance_snapshot
            WHERE account_kind = p_kind AND owner_id = p_provider AND book = p_book AND asset = 'usd' ORDER BY day DESC LIMIT 1), 0)
        + coalesce((SELECT sum(amount) FROM ledger_leg
            WHERE account_kind = p_kind AND owner_id = p_provider AND book = p_book AND asset = 'usd'
                AND at >= coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity')), 0)::bigint
$$;
-- +goose StatementEnd

-- Nothing takes from a balance what is held of it, by whatever kind of entry.
-- Those who take from one provider wait for each other, by the lock that refunds
-- take; who settles need not, since it adds as much as it holds. For the same
-- reason there is nothing to wait for while nothing is held. Both sums are of
-- one statement, which begins after the lock is had: what is settled meanwhile
-- is in both or in neither.
-- +goose StatementBegin
CREATE FUNCTION keep_held_earnings() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_held bigint;
    v_left bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM held_earning WHERE provider_id = NEW.owner_id AND ended_as IS NULL) THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('billing.earnings.' || NEW.owner_id, 0));
    SELECT coalesce(sum(payout), 0), provider_balance(NEW.account_kind, NEW.owner_id, NEW.book) INTO v_held, v_left
        FROM held_earning WHERE provider_id = NEW.owner_id AND book = NEW.book AND ended_as IS NULL;
    IF v_held > greatest(v_left, 0) THEN
        RAISE EXCEPTION '% of provider % would be left on % %, and % are held of it', v_left, NEW.owner_id, NEW.account_kind, NEW.book, v_held
            USING ERRCODE = 'check_violation', CONSTRAINT = 'held_earnings_stay';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER held_earnings_stay AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.account_kind IN ('l:provider:accrued', 'l:provider:plan_held') AND NEW.amount < 0 AND NEW.asset = 'usd')
    EXECUTE FUNCTION keep_held_earnings();

GRANT SELECT ON kinship, unpaid_credit, held_earning TO svc_billing;
GRANT INSERT (request_id, day, account_id, provider_id, rule, book, payout) ON held_earning TO svc_billing;
GRANT UPDATE (ended_as, ended_at, reason) ON held_earning TO svc_billing;
