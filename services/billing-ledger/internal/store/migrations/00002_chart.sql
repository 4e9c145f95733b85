-- The whole chart of accounts, and which entries may touch which of them.

-- +goose Up

-- What amounts count: 10^-decimals of a dollar or a token.
CREATE TABLE asset (
    id       text PRIMARY KEY CHECK (id = 'usd' OR id ~ '^[1-9][0-9]{0,9}:[a-z0-9]{1,16}$'),
    decimals smallint NOT NULL CHECK (decimals BETWEEN 0 AND 9)
);

INSERT INTO asset (id, decimals) VALUES
    ('usd', 9), ('1:usdc', 6), ('8453:usdc', 6), ('254:native', 9), ('1:eth', 9), ('8453:eth', 9);

-- The accounts. An owned kind has one account for each owner: each account,
-- provider or consumer. A kind with books has one for each month ('2026-03'),
-- chain ('8453') or token ('8453:usdc').
CREATE TABLE chart (
    kind   text PRIMARY KEY,
    normal text NOT NULL CHECK (normal IN ('debit', 'credit')),
    owned  boolean NOT NULL,
    book   text NOT NULL DEFAULT '' CHECK (book IN ('', 'month', 'chain', 'token')),
    UNIQUE (kind, owned, book)
);

INSERT INTO chart (kind, normal, owned, book) VALUES
    ('l:consumer:available', 'credit', true,  ''),
    ('l:consumer:held',      'credit', true,  ''),
    ('l:provider:accrued',   'credit', true,  ''),
    ('r:usage_margin',       'credit', false, ''),
    ('e:shortfall',          'debit',  false, ''),
    ('e:orphan_work',        'debit',  false, ''),
    ('e:goodwill',           'debit',  false, ''),
    ('a:card_clearing',        'debit',  false, ''),
    ('a:crypto',               'debit',  false, 'token'),
    ('a:bank',                 'debit',  false, ''),
    ('a:provider_receivable',  'debit',  true,  ''),
    ('l:plan_pool',            'credit', false, 'month'),
    ('l:provider:payable',     'credit', true,  ''),
    ('l:provider:plan_held',   'credit', true,  'month'),
    ('l:provider:payout_in_flight', 'credit', true, ''),
    ('l:provider:collateral',  'credit', true,  ''),
    ('l:provider:collateral_refund_pending', 'credit', true, ''),
    ('l:provider:slash_escrow', 'credit', true, ''),
    ('l:vendor:payable',       'credit', true,  ''),
    ('x:plan_accrual',         'debit',  false, 'month'),
    ('r:plan',                 'credit', false, ''),
    ('r:card_fee',             'credit', false, ''),
    ('r:payout_fee',           'credit', false, ''),
    ('r:slash',                'credit', false, ''),
    ('e:deposit_bonus',        'debit',  false, ''),
    ('e:processor',            'debit',  false, ''),
    ('e:gas',                  'debit',  false, ''),
    ('e:chargeback',           'debit',  false, ''),
    ('e:fx_rounding',          'debit',  false, ''),
    ('e:discount',             'debit',  false, ''),
    ('e:playground',           'debit',  false, ''),
    ('e:verification',         'debit',  false, ''),
    ('s:unmatched_deposit',    'credit', false, ''),
    ('s:disputed',             'credit', false, ''),
    ('m:custody',              'debit',  false, 'chain'),
    ('m:collateral',           'credit', true,  ''),
    ('m:treasury',             'credit', false, '');

-- The kinds of entries, by their line in the table of postings.
CREATE TABLE entry_kind (
    kind text PRIMARY KEY,
    line smallint CHECK (line BETWEEN 1 AND 27)
);

INSERT INTO entry_kind (kind, line) VALUES
    ('card_topup', 1), ('card_cost', 1), ('deposit_usdc', 2), ('deposit_native', 3),
    ('plan_sale', 11), ('plan_share', 14), ('plan_close', 13),
    ('earnings_batch', 15), ('payout_requested', 16), ('payout_confirmed', 17), ('gas', 17), ('payout_failed', 18),
    ('earnings_credit', 19), ('request_refund', 20), ('goodwill', 21), ('goodwill_refund', 21), ('broken_answer', 21), ('card_reversed', 22),
    ('collateral_card', 23), ('slash', 24), ('slash_forfeit', 24), ('slash_appeal_won', 24), ('plan_forfeit', 25),
    ('collateral_refund', 26), ('collateral_refund_paid', 26), ('orphan_work', 27),
    ('custody_in', NULL), ('custody_out', NULL), ('reversal', NULL);

-- Which accounts an entry of a kind may debit and credit, in USD and in tokens.
-- A posting refers to its rule, so the table is the whole of what is allowed.
-- Above all it says by what a provider can be credited.
CREATE TABLE posting_rule (
    entry_kind   text NOT NULL REFERENCES entry_kind,
    account_kind text NOT NULL REFERENCES chart,
    side         text NOT NULL CHECK (side IN ('debit', 'credit')),
    unit         text NOT NULL CHECK (unit IN ('usd', 'token')),
    PRIMARY KEY (entry_kind, account_kind, side, unit)
);

INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('goodwill', 'e:goodwill', 'debit', 'usd'),
    ('goodwill', 'l:consumer:available', 'credit', 'usd'),
    ('orphan_work', 'e:orphan_work', 'debit', 'usd'),
    ('orphan_work', 'l:provider:accrued', 'credit', 'usd'),
    ('card_topup', 'a:card_clearing', 'debit', 'usd'),
    ('card_topup', 'l:consumer:available', 'credit', 'usd'),
    ('card_topup', 'r:card_fee', 'credit', 'usd'),
    ('card_cost', 'e:processor', 'debit', 'usd'),
    ('card_cost', 'a:card_clearing', 'credit', 'usd'),
    ('deposit_usdc', 'a:crypto', 'debit', 'usd'),
    ('deposit_usdc', 'l:consumer:available', 'credit', 'usd'),
    ('deposit_usdc', 'a:crypto', 'debit', 'token'),
    ('deposit_usdc', 'm:treasury', 'credit', 'token'),
    ('deposit_native', 'a:crypto', 'debit', 'usd'),
    ('deposit_native', 'e:deposit_bonus', 'debit', 'usd'),
    ('deposit_native', 'l:consumer:available', 'credit', 'usd'),
    ('deposit_native', 'e:fx_rounding', 'credit', 'usd'),
    ('deposit_native', 'a:crypto', 'debit', 'token'),
    ('deposit_native', 'm:treasury', 'credit', 'token'),
    ('plan_sale', 'a:card_clearing', 'debit', 'usd'),
    ('plan_sale', 'l:plan_pool', 'credit', 'usd'),
    ('plan_share', 'l:provider:plan_held', 'debit', 'usd'),
    ('plan_share', 'l:provider:payable', 'credit', 'usd'),
    ('plan_share', 'x:plan_accrual', 'credit', 'usd'),
    ('plan_close', 'l:plan_pool', 'debit', 'usd'),
    ('plan_close', 'x:plan_accrual', 'credit', 'usd'),
    ('plan_close', 'r:plan', 'credit', 'usd'),
    ('plan_forfeit', 'l:provider:plan_held', 'debit', 'usd'),
    ('plan_forfeit', 'x:plan_accrual', 'credit', 'usd'),
    ('earnings_batch', 'l:provider:accrued', 'debit', 'usd'),
    ('earnings_batch', 'l:provider:payable', 'credit', 'usd'),
    ('payout_requested', 'l:provider:payable', 'debit', 'usd'),
    ('payout_requested', 'l:provider:payout_in_flight', 'credit', 'usd'),
    ('payout_confirmed', 'l:provider:payout_in_flight', 'debit', 'usd'),
    ('payout_confirmed', 'a:crypto', 'credit', 'usd'),
    ('payout_confirmed', 'r:payout_fee', 'credit', 'usd'),
    ('payout_confirmed', 'm:treasury', 'debit', 'token'),
    ('payout_confirmed', 'a:crypto', 'credit', 'token'),
    ('gas', 'e:gas', 'debit', 'usd'),
    ('gas', 'a:crypto', 'credit', 'usd'),
    ('gas', 'm:treasury', 'debit', 'token'),
    ('gas', 'a:crypto', 'credit', 'token'),
    ('payout_failed', 'l:provider:payout_in_flight', 'debit', 'usd'),
    ('payout_failed', 'l:provider:payable', 'credit', 'usd'),
    ('earnings_credit', 'l:provider:payable', 'debit', 'usd'),
    ('earnings_credit', 'l:consumer:available', 'credit', 'usd'),
    ('request_refund', 'l:provider:accrued', 'debit', 'usd'),
    ('request_refund', 'l:provider:payable', 'debit', 'usd'),
    ('request_refund', 'a:provider_receivable', 'debit', 'usd'),
    ('request_refund', 'r:usage_margin', 'debit', 'usd'),
    ('request_refund', 'l:consumer:available', 'credit', 'usd'),
    ('goodwill_refund', 'e:goodwill', 'debit', 'usd'),
    ('goodwill_refund', 'l:consumer:available', 'credit', 'usd'),
    ('card_reversed', 'l:consumer:available', 'debit', 'usd'),
    ('card_reversed', 'e:chargeback', 'debit', 'usd'),
    ('card_reversed', 'a:card_clearing', 'credit', 'usd'),
    ('collateral_card', 'a:card_clearing', 'debit', 'usd'),
    ('collateral_card', 'l:provider:collateral', 'credit', 'usd'),
    ('slash', 'l:provider:collateral', 'debit', 'usd'),
    ('slash', 'l:provider:slash_escrow', 'credit', 'usd'),
    ('slash_forfeit', 'l:provider:slash_escrow', 'debit', 'usd'),
    ('slash_forfeit', 'l:consumer:available', 'credit', 'usd'),
    ('slash_forfeit', 'r:slash', 'credit', 'usd'),
    ('slash_appeal_won', 'l:provider:slash_escrow', 'debit', 'usd'),
    ('slash_appeal_won', 'l:provider:collateral', 'credit', 'usd'),
    ('collateral_refund', 'l:provider:collateral', 'debit', 'usd'),
    ('collateral_refund', 'l:provider:collateral_refund_pending', 'credit', 'usd'),
    ('collateral_refund_paid', 'l:provider:collateral_refund_pending', 'debit', 'usd'),
    ('collateral_refund_paid', 'a:card_clearing', 'credit', 'usd'),
    ('collateral_refund_paid', 'a:bank', 'credit', 'usd'),
    ('custody_in', 'm:custody', 'debit', 'token'),
    ('custody_in', 'm:collateral', 'credit', 'token'),
    ('custody_out', 'm:custody', 'credit', 'token'),
    ('custody_out', 'm:collateral', 'debit', 'token');

-- What a reversal may touch is what its original touched, the other way round;
-- that its legs are those of the original is checked when it is committed.
INSERT INTO posting_rule (entry_kind, account_kind, side, unit)
    SELECT DISTINCT 'reversal', account_kind, CASE side WHEN 'debit' THEN 'credit' ELSE 'debit' END, unit FROM posting_rule;

-- A gateway's word that an answer broke off may come when the hub's usage is
-- settled already. Then the consumer is given back what it was charged above
-- what came. That counts as the request's one refund, and is never reversed.
INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('broken_answer', 'e:goodwill', 'debit', 'usd'),
    ('broken_answer', 'l:consumer:available', 'credit', 'usd');

GRANT SELECT ON asset, chart, entry_kind, posting_rule TO svc_billing;
