-- The whole chart of accounts, corrections, and what makes the ledger's past
-- stand: days are closed, sealed in a chain of hashes, and summed in snapshots.
--
-- entry and posting are not partitioned: (kind, business_id) must be unique
-- over all days, which a partitioned table cannot promise, and they are few
-- beside usage_settlement.
--
-- A settled request or an entry belongs to the UTC day on which it was
-- recorded: the day on which its transaction began, by the database's clock.
-- Nothing can be recorded on another day, so that a late delivery, whatever the
-- day of its request, never reaches back into a day that is closed.

-- +goose Up

-- What amounts count: 10^-decimals of a dollar or a token.
CREATE TABLE asset (
    id       text PRIMARY KEY CHECK (id = 'usd' OR id ~ '^[1-9][0-9]{0,9}:[a-z0-9]{1,16}$'),
    decimals smallint NOT NULL CHECK (decimals BETWEEN 0 AND 9)
);

INSERT INTO asset (id, decimals) VALUES
    ('usd', 9), ('1:usdc', 6), ('8453:usdc', 6), ('254:native', 9), ('1:eth', 9), ('8453:eth', 9);

-- The accounts. An owned kind has one account for each owner; a kind with
-- books has one for each month ('2026-03'), chain ('8453') or token
-- ('8453:usdc').
ALTER TABLE posting DROP CONSTRAINT posting_account_kind_account_owned_fkey;
ALTER TABLE chart
    DROP CONSTRAINT chart_kind_owned_key,
    ADD COLUMN book text NOT NULL DEFAULT '' CONSTRAINT chart_book_check CHECK (book IN ('', 'month', 'chain', 'token')),
    ADD CONSTRAINT chart_kind_owned_book_key UNIQUE (kind, owned, book);

INSERT INTO chart (kind, normal, owned, book) VALUES
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
    ('earnings_credit', 19), ('request_refund', 20), ('goodwill', 21), ('goodwill_refund', 21), ('card_reversed', 22),
    ('collateral_card', 23), ('slash', 24), ('slash_forfeit', 24), ('slash_appeal_won', 24), ('plan_forfeit', 25),
    ('collateral_refund', 26), ('collateral_refund_paid', 26), ('orphan_work', 27),
    ('custody_in', NULL), ('custody_out', NULL), ('reversal', NULL);

-- Which accounts an entry of a kind may debit and credit, in USD and in tokens.
-- A posting refers to its rule, so the table is the whole of what is allowed.
ALTER TABLE posting DROP CONSTRAINT posting_entry_kind_account_kind_fkey;
ALTER TABLE posting_rule
    DROP CONSTRAINT posting_rule_pkey,
    ADD COLUMN side text NOT NULL DEFAULT 'credit' CONSTRAINT posting_rule_side_check CHECK (side IN ('debit', 'credit')),
    ADD COLUMN unit text NOT NULL DEFAULT 'usd' CONSTRAINT posting_rule_unit_check CHECK (unit IN ('usd', 'token')),
    ADD CONSTRAINT posting_rule_pkey PRIMARY KEY (entry_kind, account_kind, side, unit),
    ADD CONSTRAINT posting_rule_entry_kind_fkey FOREIGN KEY (entry_kind) REFERENCES entry_kind;
UPDATE posting_rule SET side = 'debit' WHERE account_kind LIKE 'e:%';
ALTER TABLE posting_rule ALTER COLUMN side DROP DEFAULT, ALTER COLUMN unit DROP DEFAULT;

INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
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

ALTER TABLE entry
    DROP CONSTRAINT entry_kind_check,
    ADD CONSTRAINT entry_kind_fkey FOREIGN KEY (kind) REFERENCES entry_kind,
    -- The entry that this one undoes. An entry is undone once, and an undoing
    -- never.
    ADD COLUMN reverses uuid,
    ADD CONSTRAINT entry_reverses_key UNIQUE (reverses),
    ADD CONSTRAINT entry_reverses_fkey FOREIGN KEY (reverses) REFERENCES entry (id),
    ADD CONSTRAINT entry_reversal CHECK ((kind = 'reversal') = (reverses IS NOT NULL)
        AND (reverses IS NULL OR business_id = reverses::text)),
    -- The price at which tokens entered the books: nano-USD for a whole one.
    ADD COLUMN quote_asset text,
    ADD COLUMN quote_rate bigint CONSTRAINT entry_quote_rate_check CHECK (quote_rate BETWEEN 1 AND 500000000000000000),
    ADD COLUMN quote_source text CONSTRAINT entry_quote_source_check CHECK (char_length(quote_source) BETWEEN 1 AND 64),
    ADD COLUMN quote_at timestamptz,
    ADD CONSTRAINT entry_quote_asset_fkey FOREIGN KEY (quote_asset) REFERENCES asset,
    ADD CONSTRAINT entry_quote_complete CHECK (num_nonnulls(quote_asset, quote_rate, quote_source, quote_at) IN (0, 4)),
    ADD CONSTRAINT entry_quoted CHECK ((kind IN ('deposit_native', 'gas')) = (quote_asset IS NOT NULL));

-- 16 legs of at most 5*10^17 fit a bigint however they are added.
ALTER TABLE posting
    ADD COLUMN asset text NOT NULL DEFAULT 'usd',
    ADD COLUMN book text NOT NULL DEFAULT '',
    ADD COLUMN side text NOT NULL GENERATED ALWAYS AS (CASE WHEN amount < 0 THEN 'debit' ELSE 'credit' END) STORED,
    ADD COLUMN unit text NOT NULL GENERATED ALWAYS AS (CASE WHEN asset = 'usd' THEN 'usd' ELSE 'token' END) STORED,
    ADD COLUMN book_form text GENERATED ALWAYS AS (CASE
        WHEN book = '' THEN ''
        WHEN book ~ '^[0-9]{4}-(0[1-9]|1[0-2])$' THEN 'month'
        WHEN book ~ '^[1-9][0-9]{0,9}$' THEN 'chain'
        WHEN book ~ '^[1-9][0-9]{0,9}:[a-z0-9]{1,16}$' THEN 'token' END) STORED,
    ADD COLUMN book_asset text GENERATED ALWAYS AS (CASE WHEN book LIKE '%:%' THEN book END) STORED,
    ADD CONSTRAINT posting_book_asset_fkey FOREIGN KEY (book_asset) REFERENCES asset,
    ADD CONSTRAINT posting_book_check CHECK (book_form IS NOT NULL),
    ADD CONSTRAINT posting_amount_bounds CHECK (amount BETWEEN -500000000000000000 AND 500000000000000000),
    -- Tokens stand in the book of their own chain.
    ADD CONSTRAINT posting_asset_in_book CHECK (asset = 'usd' OR book IN ('', asset, split_part(asset, ':', 1))),
    ADD CONSTRAINT posting_asset_fkey FOREIGN KEY (asset) REFERENCES asset,
    ADD CONSTRAINT posting_rule_fkey FOREIGN KEY (entry_kind, account_kind, side, unit) REFERENCES posting_rule,
    ADD CONSTRAINT posting_account_fkey FOREIGN KEY (account_kind, account_owned, book_form) REFERENCES chart (kind, owned, book);

DROP INDEX posting_account;
CREATE INDEX posting_account ON posting (account_kind, owner_id, book, asset);
CREATE INDEX entry_recorded ON entry (at);
CREATE INDEX usage_settlement_recorded ON usage_settlement (settled_at);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION check_entry() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_entry uuid;
    e       record;
    v_legs  bigint;
    v_wrong text;
BEGIN
    IF TG_TABLE_NAME = 'entry' THEN
        v_entry := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        v_entry := OLD.entry_id;
    ELSE
        v_entry := NEW.entry_id;
    END IF;
    SELECT coalesce(sum(n), 0), string_agg(format('%s: %s', asset, total), ', ') FILTER (WHERE total <> 0)
        INTO v_legs, v_wrong
        FROM (SELECT asset, count(*) AS n, sum(amount) AS total FROM posting WHERE entry_id = v_entry GROUP BY asset) sums;
    IF v_legs < 2 OR v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'entry % has % legs that sum to %', v_entry, v_legs, coalesce(v_wrong, 'nothing')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_balances';
    END IF;
    SELECT entry.at, entry.reverses, original.kind AS reversed INTO e
        FROM entry LEFT JOIN entry original ON original.id = entry.reverses WHERE entry.id = v_entry;
    -- An entry is whole when it is committed: no later transaction adds to it.
    IF e.at IS DISTINCT FROM now() THEN
        RAISE EXCEPTION 'entry % was posted before', v_entry
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_is_whole';
    END IF;
    IF e.reversed = 'reversal' OR EXISTS (
        SELECT FROM (SELECT * FROM posting WHERE entry_id = v_entry) r
        FULL JOIN (SELECT * FROM posting WHERE entry_id = e.reverses) o USING (leg)
        WHERE e.reverses IS NOT NULL AND (r.account_kind, r.owner_id, r.book, r.asset, -r.amount)
            IS DISTINCT FROM (o.account_kind, o.owner_id, o.book, o.asset, o.amount))
    THEN
        RAISE EXCEPTION 'entry % does not undo entry %', v_entry, e.reverses
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_undoes';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Days that take no more. Closing is a row of its own, before the sealing: a
-- transaction that had begun when its day was closed either was seen by all
-- (and the sealer waits for it to end), or is refused and begins anew.
CREATE TABLE closed_day (
    day       date PRIMARY KEY,
    closed_at timestamptz NOT NULL DEFAULT now()
);

-- +goose StatementBegin
CREATE FUNCTION refuse_early_close() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'day % is not over', NEW.day USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER day_is_over BEFORE INSERT ON closed_day
    FOR EACH ROW WHEN (NEW.day >= (now() AT TIME ZONE 'UTC')::date) EXECUTE FUNCTION refuse_early_close();

-- The check comes after the insertion and reads what is committed then. So a
-- transaction that does not see its day closed has had its number before the
-- closing was committed, and the sealer waits for all such numbers. Under
-- another isolation the check would read an older state.
-- +goose StatementBegin
CREATE FUNCTION refuse_closed_day() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% is added to under read committed only', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF EXISTS (SELECT FROM closed_day WHERE day >= (now() AT TIME ZONE 'UTC')::date) THEN
        RAISE EXCEPTION 'the day of this transaction is closed'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER usage_day_open AFTER INSERT ON usage_settlement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed_day();
CREATE TRIGGER entry_day_open AFTER INSERT ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed_day();
CREATE TRIGGER usage_recorded_now BEFORE INSERT ON usage_settlement
    FOR EACH ROW WHEN (NEW.settled_at IS DISTINCT FROM now()) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entry_recorded_now BEFORE INSERT ON entry
    FOR EACH ROW WHEN (NEW.at IS DISTINCT FROM now()) EXECUTE FUNCTION refuse_change();

-- The chain. digest is over everything recorded on the day, as package seal
-- says; root ties it to the day before. Every day has a seal, also one on which
-- nothing happened, so that none can be left out.
CREATE TABLE seal (
    day          date PRIMARY KEY REFERENCES closed_day,
    version      smallint NOT NULL CHECK (version = 1),
    lines        bigint NOT NULL CHECK (lines >= 0),
    entries      bigint NOT NULL CHECK (entries >= 0),
    postings     bigint NOT NULL CHECK (postings >= 2 * entries),
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- The root of the day before; null for the first day only.
    previous     bytea,
    root         bytea NOT NULL,
    sealed_at    timestamptz NOT NULL DEFAULT now(),
    previous_day date GENERATED ALWAYS AS (day - 1) STORED,
    CONSTRAINT seal_day_root_key UNIQUE (day, root),
    CONSTRAINT seal_follows FOREIGN KEY (previous_day, previous) REFERENCES seal (day, root),
    CONSTRAINT seal_root CHECK (root = sha256(int2send(version) || coalesce(previous, decode(repeat('00', 32), 'hex'))
        || date_send(day) || int8send(lines) || int8send(entries) || int8send(postings) || digest))
);

CREATE UNIQUE INDEX seal_first ON seal ((true)) WHERE previous IS NULL;

-- Balances at the end of closed days, of accounts that moved on the day; that
-- of another day is the last before it. What open holds have set aside is not
-- in it: l:consumer:available is what a wallet has in all.
CREATE TABLE balance_snapshot (
    day          date NOT NULL REFERENCES seal,
    account_kind text NOT NULL REFERENCES chart,
    -- The zero UUID stands for nobody.
    owner_id     uuid NOT NULL,
    book         text NOT NULL,
    asset        text NOT NULL REFERENCES asset,
    moved        bigint NOT NULL,
    balance      bigint NOT NULL,
    PRIMARY KEY (account_kind, owner_id, book, asset, day)
);

CREATE INDEX balance_snapshot_day ON balance_snapshot (day);

-- Settled requests as the postings they stand for, by their line in the table
-- of postings. Lines 9 and 10 move nothing. A covered request belongs to the
-- month of its own day, whenever it settles.
CREATE VIEW usage_leg AS
    SELECT s.day, s.request_id, s.settled_at AS at, leg.line, leg.account_kind, leg.owner_id, leg.book, leg.amount
    FROM usage_settlement s
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'l:consumer:available', s.account_id, '', CASE s.source WHEN 'payg' THEN -s.charged END),
        (7, 'e:shortfall', NULL, '', CASE s.source WHEN 'payg' THEN -s.shortfall END),
        (CASE WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'l:provider:accrued', s.provider_id, '', CASE s.source WHEN 'payg' THEN s.payout END),
        (CASE WHEN s.shortfall > 0 THEN 7 ELSE 5 END, 'r:usage_margin', NULL, '', CASE s.source WHEN 'payg' THEN s.fee END),
        (12, 'x:plan_accrual', NULL, to_char(s.day, 'YYYY-MM'), CASE s.source WHEN 'plan' THEN -s.payout END),
        (12, 'l:provider:plan_held', s.provider_id, to_char(s.day, 'YYYY-MM'), CASE s.source WHEN 'plan' THEN s.payout END)
    ) AS leg (line, account_kind, owner_id, book, amount)
    WHERE leg.amount <> 0;

-- Everything that is recorded, leg by leg.
CREATE VIEW ledger_leg AS
    SELECT k.line, e.at, p.account_kind, p.owner_id, p.book, p.asset, p.amount
    FROM posting p JOIN entry e ON e.id = p.entry_id JOIN entry_kind k ON k.kind = e.kind
    UNION ALL
    SELECT line, at, account_kind, owner_id, book, 'usd', amount FROM usage_leg;

-- Lines 4 and 6: what open holds have moved from available to held.
CREATE VIEW hold_leg AS
    SELECT h.request_id, leg.account_kind, h.account_id AS owner_id, leg.amount
    FROM hold h
    CROSS JOIN LATERAL (VALUES ('l:consumer:available', -h.amount), ('l:consumer:held', h.amount)) AS leg (account_kind, amount)
    WHERE h.state = 'open' AND h.amount > 0;

GRANT SELECT ON asset, entry_kind, usage_leg, ledger_leg, hold_leg TO svc_billing;
GRANT SELECT, INSERT ON balance_snapshot TO svc_billing;
-- When a day was closed and sealed is the database's to say.
GRANT SELECT ON closed_day, seal TO svc_billing;
GRANT INSERT (day) ON closed_day TO svc_billing;
GRANT INSERT (day, version, lines, entries, postings, digest, previous, root) ON seal TO svc_billing;
