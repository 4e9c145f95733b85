-- What settlement posts: payouts that end once, plans' months that are closed, tokens
-- that come, go and change in value, and what providers and consumers owe. And two rules
-- for all entries: a provider never has less than nothing, and nobody pays more of a debt
-- than is owed.

-- +goose Up
INSERT INTO chart (kind, normal, owned, book) VALUES
    ('a:consumer_receivable', 'debit', true,  ''),
    ('e:fx_revaluation',      'debit', false, '');

INSERT INTO entry_kind (kind, line) VALUES
    ('deposit_unmatched', 2), ('deposit_matched', 2), ('deposit_returned', 2), ('deposit_reversed', 3),
    ('plan_refund', 11), ('plan_late', 12), ('plan_unclaimed', 14), ('revaluation', 17),
    ('card_debt_paid', 22), ('card_debt_lost', 22), ('card_dispute_won', 22), ('collateral_card_reversed', 23),
    ('slash_chain', 24), ('treasury', NULL), ('card_paid_out', NULL);

-- What a consumer spent of a card payment that is reversed is owed, and a loss only when
-- it is given up. The rule by which card_reversed debits e:chargeback stays for programs of
-- the version before.
INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('deposit_unmatched', 'a:crypto', 'debit', 'usd'),
    ('deposit_unmatched', 'a:crypto', 'debit', 'token'),
    ('deposit_unmatched', 'm:treasury', 'credit', 'token'),
    ('deposit_unmatched', 's:unmatched_deposit', 'credit', 'usd'),
    ('deposit_matched', 's:unmatched_deposit', 'debit', 'usd'),
    ('deposit_matched', 'l:consumer:available', 'credit', 'usd'),
    ('deposit_returned', 's:unmatched_deposit', 'debit', 'usd'),
    ('deposit_returned', 'a:crypto', 'credit', 'usd'),
    ('deposit_returned', 'a:crypto', 'credit', 'token'),
    ('deposit_returned', 'm:treasury', 'debit', 'token'),
    ('deposit_reversed', 'l:consumer:available', 'debit', 'usd'),
    ('deposit_reversed', 'a:consumer_receivable', 'debit', 'usd'),
    ('deposit_reversed', 'e:fx_rounding', 'debit', 'usd'),
    ('deposit_reversed', 'e:deposit_bonus', 'credit', 'usd'),
    ('deposit_reversed', 'a:crypto', 'credit', 'usd'),
    ('deposit_reversed', 'a:crypto', 'credit', 'token'),
    ('deposit_reversed', 'm:treasury', 'debit', 'token'),
    ('plan_refund', 'l:plan_pool', 'debit', 'usd'),
    ('plan_refund', 'e:goodwill', 'debit', 'usd'),
    ('plan_refund', 'a:card_clearing', 'credit', 'usd'),
    ('plan_late', 'l:provider:plan_held', 'debit', 'usd'),
    ('plan_late', 'e:orphan_work', 'debit', 'usd'),
    ('plan_late', 'l:provider:payable', 'credit', 'usd'),
    ('plan_late', 'a:provider_receivable', 'credit', 'usd'),
    ('plan_late', 'x:plan_accrual', 'credit', 'usd'),
    ('plan_unclaimed', 'x:plan_accrual', 'debit', 'usd'),
    ('plan_unclaimed', 'r:plan', 'credit', 'usd'),
    ('plan_share', 'a:provider_receivable', 'credit', 'usd'),
    ('earnings_batch', 'a:provider_receivable', 'credit', 'usd'),
    ('revaluation', 'a:crypto', 'debit', 'usd'),
    ('revaluation', 'a:crypto', 'credit', 'usd'),
    ('revaluation', 'e:fx_revaluation', 'debit', 'usd'),
    ('revaluation', 'e:fx_revaluation', 'credit', 'usd'),
    ('card_reversed', 'a:consumer_receivable', 'debit', 'usd'),
    ('card_debt_paid', 'l:consumer:available', 'debit', 'usd'),
    ('card_debt_paid', 'a:consumer_receivable', 'credit', 'usd'),
    ('card_debt_lost', 'e:chargeback', 'debit', 'usd'),
    ('card_debt_lost', 'a:consumer_receivable', 'credit', 'usd'),
    ('card_dispute_won', 'a:card_clearing', 'debit', 'usd'),
    ('card_dispute_won', 'a:consumer_receivable', 'credit', 'usd'),
    ('card_dispute_won', 'e:chargeback', 'credit', 'usd'),
    ('card_dispute_won', 'l:consumer:available', 'credit', 'usd'),
    ('collateral_card_reversed', 'l:provider:collateral', 'debit', 'usd'),
    ('collateral_card_reversed', 'a:provider_receivable', 'debit', 'usd'),
    ('collateral_card_reversed', 'a:card_clearing', 'credit', 'usd'),
    ('slash_chain', 'a:crypto', 'debit', 'usd'),
    ('slash_chain', 'a:crypto', 'debit', 'token'),
    ('slash_chain', 'm:treasury', 'credit', 'token'),
    ('slash_chain', 'r:slash', 'credit', 'usd'),
    ('slash_chain', 'l:consumer:available', 'credit', 'usd'),
    ('treasury', 'a:crypto', 'debit', 'usd'),
    ('treasury', 'a:crypto', 'debit', 'token'),
    ('treasury', 'a:crypto', 'credit', 'usd'),
    ('treasury', 'a:crypto', 'credit', 'token'),
    ('treasury', 'm:treasury', 'debit', 'token'),
    ('treasury', 'm:treasury', 'credit', 'token'),
    ('treasury', 'a:bank', 'debit', 'usd'),
    ('treasury', 'a:bank', 'credit', 'usd'),
    ('card_paid_out', 'a:bank', 'debit', 'usd'),
    ('card_paid_out', 'a:card_clearing', 'credit', 'usd');

INSERT INTO posting_rule (entry_kind, account_kind, side, unit)
    SELECT DISTINCT 'reversal', account_kind, CASE side WHEN 'debit' THEN 'credit' ELSE 'debit' END, unit
    FROM posting_rule WHERE entry_kind NOT IN ('reversal', 'broken_answer')
    ON CONFLICT DO NOTHING;

-- An entry has a quote if and only if it moves a coin, which check_entry sees.
ALTER TABLE entry DROP CONSTRAINT entry_quoted;

-- A payout ends once, with what was requested, and a slash ends once.
CREATE CONSTRAINT TRIGGER payout_ends_its_request AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('payout_confirmed', 'payout_failed') AND NEW.account_kind = 'l:provider:payout_in_flight')
    EXECUTE FUNCTION check_payout_end();

CREATE CONSTRAINT TRIGGER slash_ends_once AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.entry_kind IN ('slash_forfeit', 'slash_appeal_won') AND NEW.account_kind = 'l:provider:slash_escrow')
    EXECUTE FUNCTION check_slash_end();

CREATE CONSTRAINT TRIGGER provider_never_short AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.account_kind LIKE 'l:provider:%' AND NEW.amount < 0 AND NEW.asset = 'usd')
    EXECUTE FUNCTION keep_in_credit();

CREATE CONSTRAINT TRIGGER debt_never_overpaid AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.account_kind IN ('a:provider_receivable', 'a:consumer_receivable') AND NEW.amount > 0)
    EXECUTE FUNCTION keep_owed();

-- What was held of earnings ends on a day that is open, as everything else that a day's
-- settlement reads.
CREATE TRIGGER held_earning_ends_now BEFORE UPDATE ON held_earning
    FOR EACH ROW WHEN (NEW.ended_at <> now()) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER held_earning_day_open AFTER UPDATE ON held_earning
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed_day();
