-- The double-entry ledger for everything that is not a settled request. A
-- settled request is one row of usage_settlement, which is a whole balanced
-- entry by itself (see 00004_usage.sql).
--
-- An amount above zero credits an account, one below zero debits it; nano-USD.

-- +goose Up
CREATE TABLE chart (
    kind   text PRIMARY KEY,
    normal text NOT NULL CHECK (normal IN ('debit', 'credit')),
    -- Whether each account, provider or consumer has one of its own.
    owned  boolean NOT NULL,
    UNIQUE (kind, owned)
);

INSERT INTO chart (kind, normal, owned) VALUES
    ('l:consumer:available', 'credit', true),
    ('l:consumer:held',      'credit', true),
    ('l:provider:accrued',   'credit', true),
    ('r:usage_margin',       'credit', false),
    ('e:shortfall',          'debit',  false),
    ('e:orphan_work',        'debit',  false),
    ('e:goodwill',           'debit',  false);

-- Which accounts an entry of a kind may touch. Above all it says by what a
-- provider can be credited.
CREATE TABLE posting_rule (
    entry_kind   text NOT NULL,
    account_kind text NOT NULL REFERENCES chart,
    PRIMARY KEY (entry_kind, account_kind)
);

INSERT INTO posting_rule (entry_kind, account_kind) VALUES
    ('goodwill',    'e:goodwill'),
    ('goodwill',    'l:consumer:available'),
    ('orphan_work', 'e:orphan_work'),
    ('orphan_work', 'l:provider:accrued');

CREATE TABLE entry (
    id          uuid PRIMARY KEY,
    kind        text NOT NULL CHECK (kind IN ('goodwill', 'orphan_work')),
    -- What makes a repeat of the same business fact recognisable.
    business_id text NOT NULL CHECK (char_length(business_id) BETWEEN 1 AND 255),
    memo        text NOT NULL DEFAULT '' CHECK (char_length(memo) <= 200),
    at          timestamptz NOT NULL DEFAULT now(),
    UNIQUE (kind, business_id),
    UNIQUE (id, kind)
);

CREATE TABLE posting (
    entry_id      uuid NOT NULL,
    leg           smallint NOT NULL CHECK (leg BETWEEN 1 AND 16),
    entry_kind    text NOT NULL,
    account_kind  text NOT NULL,
    account_owned boolean NOT NULL,
    owner_id      uuid,
    amount        bigint NOT NULL CHECK (amount <> 0),
    PRIMARY KEY (entry_id, leg),
    FOREIGN KEY (entry_id, entry_kind) REFERENCES entry (id, kind),
    FOREIGN KEY (entry_kind, account_kind) REFERENCES posting_rule,
    FOREIGN KEY (account_kind, account_owned) REFERENCES chart (kind, owned),
    CHECK (account_owned = (owner_id IS NOT NULL))
);

CREATE INDEX posting_account ON posting (account_kind, owner_id);

-- +goose StatementBegin
CREATE FUNCTION check_entry() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_entry uuid;
    v_legs  bigint;
    v_sum   numeric;
BEGIN
    IF TG_TABLE_NAME = 'entry' THEN
        v_entry := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        v_entry := OLD.entry_id;
    ELSE
        v_entry := NEW.entry_id;
    END IF;
    SELECT count(*), coalesce(sum(amount), 0) INTO v_legs, v_sum FROM posting WHERE entry_id = v_entry;
    IF v_legs < 2 OR v_sum <> 0 THEN
        RAISE EXCEPTION 'entry % has % legs that sum to %', v_entry, v_legs, v_sum
            USING ERRCODE = 'check_violation', CONSTRAINT = 'entry_balances';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Both tables carry it: an entry without postings must fail as well.
CREATE CONSTRAINT TRIGGER entry_balances AFTER INSERT ON entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_entry();
CREATE CONSTRAINT TRIGGER posting_balances AFTER INSERT OR UPDATE OR DELETE ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_entry();

GRANT SELECT ON chart, posting_rule TO svc_billing;
GRANT SELECT, INSERT ON entry, posting TO svc_billing;
