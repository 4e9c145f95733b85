-- The double-entry ledger for everything that is not a settled request, and what
-- makes the ledger's past stand: days are closed, sealed in a chain of hashes, and
-- summed in snapshots. A settled request is one row of usage_settlement, which is a
-- whole balanced entry by itself (see 00005_usage.sql).
--
-- An amount above zero credits an account, one below zero debits it; nano-USD.
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
CREATE TABLE entry (
    id           uuid PRIMARY KEY,
    kind         text NOT NULL REFERENCES entry_kind,
    -- What makes a repeat of the same business fact recognisable.
    business_id  text NOT NULL CHECK (char_length(business_id) BETWEEN 1 AND 255),
    memo         text NOT NULL DEFAULT '' CHECK (char_length(memo) <= 200),
    at           timestamptz NOT NULL DEFAULT now(),
    -- The entry that this one undoes. An entry is undone once, and an undoing
    -- never.
    reverses     uuid UNIQUE REFERENCES entry (id),
    -- The price at which tokens entered the books: nano-USD for a whole one.
    quote_asset  text REFERENCES asset,
    quote_rate   bigint CHECK (quote_rate BETWEEN 1 AND 500000000000000000),
    quote_source text CHECK (char_length(quote_source) BETWEEN 1 AND 64),
    quote_at     timestamptz,
    UNIQUE (kind, business_id),
    UNIQUE (id, kind),
    CONSTRAINT entry_reversal CHECK ((kind = 'reversal') = (reverses IS NOT NULL)
        AND (reverses IS NULL OR business_id = reverses::text)),
    CONSTRAINT entry_quote_complete CHECK (num_nonnulls(quote_asset, quote_rate, quote_source, quote_at) IN (0, 4)),
    CONSTRAINT entry_quoted CHECK ((kind IN ('deposit_native', 'gas')) = (quote_asset IS NOT NULL))
);

CREATE INDEX entry_recorded ON entry (at);
-- A request is refunded once, whoever bears it; business_id is the request.
CREATE UNIQUE INDEX entry_refunds_once ON entry (business_id)
    WHERE kind IN ('request_refund', 'goodwill_refund', 'broken_answer');

-- 16 legs of at most 5*10^17 fit a bigint however they are added.
CREATE TABLE posting (
    entry_id      uuid NOT NULL,
    leg           smallint NOT NULL CHECK (leg BETWEEN 1 AND 16),
    entry_kind    text NOT NULL,
    account_kind  text NOT NULL,
    account_owned boolean NOT NULL,
    owner_id      uuid,
    amount        bigint NOT NULL CHECK (amount <> 0),
    asset         text NOT NULL DEFAULT 'usd' REFERENCES asset,
    book          text NOT NULL DEFAULT '',
    side          text NOT NULL GENERATED ALWAYS AS (CASE WHEN amount < 0 THEN 'debit' ELSE 'credit' END) STORED,
    unit          text NOT NULL GENERATED ALWAYS AS (CASE WHEN asset = 'usd' THEN 'usd' ELSE 'token' END) STORED,
    book_form     text GENERATED ALWAYS AS (CASE
        WHEN book = '' THEN ''
        WHEN book ~ '^[0-9]{4}-(0[1-9]|1[0-2])$' THEN 'month'
        WHEN book ~ '^[1-9][0-9]{0,9}$' THEN 'chain'
        WHEN book ~ '^[1-9][0-9]{0,9}:[a-z0-9]{1,16}$' THEN 'token' END) STORED,
    book_asset    text GENERATED ALWAYS AS (CASE WHEN book LIKE '%:%' THEN book END) STORED REFERENCES asset,
    PRIMARY KEY (entry_id, leg),
    FOREIGN KEY (entry_id, entry_kind) REFERENCES entry (id, kind),
    CHECK (account_owned = (owner_id IS NOT NULL)),
    CONSTRAINT posting_book_check CHECK (book_form IS NOT NULL),
    CONSTRAINT posting_amount_bounds CHECK (amount BETWEEN -500000000000000000 AND 500000000000000000),
    -- Tokens stand in the book of their own chain.
    CONSTRAINT posting_asset_in_book CHECK (asset = 'usd' OR book IN ('', asset, split_part(asset, ':', 1))),
    CONSTRAINT posting_rule_fkey FOREIGN KEY (entry_kind, account_kind, side, unit) REFERENCES posting_rule,
    CONSTRAINT posting_account_fkey FOREIGN KEY (account_kind, account_owned, book_form) REFERENCES chart (kind, owned, book)
);

CREATE INDEX posting_account ON posting (account_kind, owner_id, book, asset);
-- Credit which nobody paid for: see the view granted_credit.
CREATE INDEX posting_granted_credit ON posting (owner_id)
    WHERE account_kind = 'l:consumer:available' AND amount > 0
        AND entry_kind IN ('deposit_native', 'goodwill', 'goodwill_refund', 'broken_answer');
-- Deposits that somebody paid for: see the view paid_deposit.
CREATE INDEX posting_paid_deposit ON posting (owner_id)
    WHERE account_kind = 'l:consumer:available' AND amount > 0
        AND entry_kind IN ('card_topup', 'deposit_usdc', 'deposit_native');

-- Both tables carry it: an entry without postings must fail as well.
CREATE CONSTRAINT TRIGGER entry_balances AFTER INSERT ON entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_entry();
CREATE CONSTRAINT TRIGGER posting_balances AFTER INSERT OR UPDATE OR DELETE ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_entry();

-- Days that take no more. Closing is a row of its own, before the sealing: a
-- transaction that had begun when its day was closed either was seen by all
-- (and the sealer waits for it to end), or is refused and begins anew.
CREATE TABLE closed_day (
    day       date PRIMARY KEY,
    closed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TRIGGER day_is_over BEFORE INSERT ON closed_day
    FOR EACH ROW WHEN (NEW.day >= (now() AT TIME ZONE 'UTC')::date) EXECUTE FUNCTION refuse_early_close();
CREATE TRIGGER entry_day_open AFTER INSERT ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed_day();
CREATE TRIGGER entry_recorded_now BEFORE INSERT ON entry
    FOR EACH ROW WHEN (NEW.at IS DISTINCT FROM now()) EXECUTE FUNCTION refuse_change();

-- The chain. digest is over everything recorded on the day, as package store
-- says; root ties it to the day before. Every day has a seal, also one on which
-- nothing happened, so that none can be left out. Version 2 has the unit of settled
-- requests.
CREATE TABLE seal (
    day          date PRIMARY KEY REFERENCES closed_day,
    version      smallint NOT NULL CHECK (version BETWEEN 1 AND 2),
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

GRANT SELECT, INSERT ON entry, posting, balance_snapshot TO svc_billing;
-- When a day was closed and sealed is the database's to say.
GRANT SELECT ON closed_day, seal TO svc_billing;
GRANT INSERT (day) ON closed_day TO svc_billing;
GRANT INSERT (day, version, lines, entries, postings, digest, previous, root) ON seal TO svc_billing;
