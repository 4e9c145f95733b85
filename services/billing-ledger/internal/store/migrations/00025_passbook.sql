-- What consumers see of their money and their usage: the passbook, sums of usage by day, and
-- numbered documents. All of it follows from usage_settlement, entry and posting, so it could
-- be made anew, and verify does so.
--
-- The fold makes it: one transaction after the other takes what was recorded since the last
-- one, up to a moment before which no transaction runs any more. So settling and posting
-- write nothing of it, and the moments of an account's lines only grow. What was recorded
-- lately is not in it yet; until_at says from when on.

-- +goose Up
-- Who used what on whose account: key, model, provider, and who paid. Few beside the lines.
CREATE TABLE usage_series (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id  uuid NOT NULL,
    key_id      uuid NOT NULL,
    model_id    text NOT NULL CHECK (char_length(model_id) BETWEEN 1 AND 255),
    provider_id uuid NOT NULL,
    source      text NOT NULL CHECK (source IN ('payg', 'plan', 'free', 'orphan')),
    unit        smallint NOT NULL CHECK (unit BETWEEN 0 AND 2),
    CONSTRAINT usage_series_once UNIQUE (account_id, key_id, model_id, provider_id, source, unit)
);

-- The lines of a consumer's credit, with the balance after each, in nano-USD: what was
-- posted, without what open holds have set aside. A settled request has a line whatever it
-- cost. Lines are in the order of (at, n). No foreign key: the fold inserts them from the
-- rows that they name, and 10^7 look-ups would tell it nothing.
CREATE TABLE passbook_line (
    account_id        uuid NOT NULL,
    at                timestamptz NOT NULL,
    -- The place among the account's lines of one moment.
    n                 integer NOT NULL CHECK (n > 0),
    -- usage, or the kind of the entry.
    kind              text NOT NULL,
    -- The request, or the entry.
    ref               uuid NOT NULL,
    amount            bigint NOT NULL,
    balance           bigint NOT NULL,
    series_id         bigint,
    prompt_tokens     bigint,
    completion_tokens bigint,
    list_price        bigint,
    PRIMARY KEY (account_id, at, n),
    CONSTRAINT passbook_line_of_usage CHECK (num_nonnulls(series_id, prompt_tokens, completion_tokens, list_price)
        = CASE kind WHEN 'usage' THEN 4 ELSE 0 END),
    CONSTRAINT passbook_line_moves CHECK (CASE kind WHEN 'usage' THEN amount <= 0 ELSE amount <> 0 END)
);
-- What moved credit, and what was not usage: so no page passes over lines that it does not show.
CREATE INDEX passbook_line_moved ON passbook_line (account_id, at, n) WHERE amount <> 0;
CREATE INDEX passbook_line_entry ON passbook_line (account_id, at, n) WHERE kind <> 'usage';

-- The sums of the lines of a series by UTC day. covered is the list price of what a plan paid.
CREATE TABLE usage_day (
    series_id         bigint NOT NULL REFERENCES usage_series,
    day               date NOT NULL,
    requests          bigint NOT NULL CHECK (requests > 0),
    prompt_tokens     bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    charged           bigint NOT NULL CHECK (charged >= 0),
    covered           bigint NOT NULL CHECK (covered >= 0),
    PRIMARY KEY (series_id, day)
) WITH (fillfactor = 70);

-- How far the fold is. It makes the invoices of a month at its end, before anything of the
-- next one: invoice_month is the first month without them, invoiced the last account that
-- has its own of it.
CREATE TABLE passbook_fold (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Nothing was recorded before it.
    begun_at      timestamptz NOT NULL,
    until_at      timestamptz NOT NULL,
    invoice_month date NOT NULL CHECK (extract(day FROM invoice_month) = 1),
    invoiced      uuid,
    CONSTRAINT passbook_fold_month CHECK (until_at <= ((invoice_month + interval '1 month') AT TIME ZONE 'UTC'))
);
CREATE TRIGGER passbook_fold_moves_on BEFORE UPDATE ON passbook_fold
    FOR EACH ROW WHEN (NEW.until_at < OLD.until_at OR NEW.invoice_month < OLD.invoice_month)
    EXECUTE FUNCTION refuse_change();

INSERT INTO passbook_fold (begun_at, until_at, invoice_month)
    SELECT at, at, date_trunc('month', at AT TIME ZONE 'UTC')::date
    FROM (SELECT least(now(), (SELECT min(settled_at) FROM usage_settlement), (SELECT min(at) FROM entry)) AS at) first;

-- The last number of each series and year. Numbers have no gaps, because the row is locked
-- until the transaction of the document ends.
CREATE TABLE document_number (
    series text NOT NULL CHECK (series IN ('R', 'I', 'C')),
    year   integer NOT NULL CHECK (year BETWEEN 2000 AND 9999),
    last   integer NOT NULL CHECK (last > 0),
    PRIMARY KEY (series, year)
);

-- Receipts of credit (R), monthly invoices (I) and credit notes (C), which never change. body
-- is everything that is printed.
CREATE TABLE document (
    series     text NOT NULL,
    year       integer NOT NULL,
    number     integer NOT NULL,
    account_id uuid NOT NULL REFERENCES account,
    at         timestamptz NOT NULL,
    amount     bigint NOT NULL,
    -- What a receipt or a credit note rests on.
    entry_id   uuid REFERENCES entry,
    -- What an invoice is of.
    month      date CHECK (extract(day FROM month) = 1),
    body       jsonb NOT NULL CHECK (octet_length(body::text) <= 1048576),
    made_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (series, year, number),
    CONSTRAINT document_numbered FOREIGN KEY (series, year) REFERENCES document_number,
    CONSTRAINT document_of CHECK (CASE series WHEN 'I' THEN entry_id IS NULL AND month IS NOT NULL
        ELSE entry_id IS NOT NULL AND month IS NULL END),
    CONSTRAINT document_of_its_year CHECK (year = extract(year FROM at AT TIME ZONE 'UTC'))
);
CREATE UNIQUE INDEX document_of_entry ON document (entry_id, account_id) WHERE entry_id IS NOT NULL;
CREATE UNIQUE INDEX document_of_month ON document (account_id, month) WHERE month IS NOT NULL;
CREATE INDEX document_of_account ON document (account_id, series, at, number);
CREATE TRIGGER document_is_next BEFORE INSERT ON document
    FOR EACH ROW EXECUTE FUNCTION number_document();
CREATE TRIGGER document_stays BEFORE UPDATE OR DELETE ON document
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT (account_id, key_id, model_id, provider_id, source, unit) ON usage_series TO svc_billing;
GRANT SELECT, INSERT ON passbook_line, usage_day TO svc_billing;
GRANT UPDATE (requests, prompt_tokens, completion_tokens, charged, covered) ON usage_day TO svc_billing;
GRANT SELECT, UPDATE (until_at, invoice_month, invoiced) ON passbook_fold TO svc_billing;
GRANT SELECT ON document_number TO svc_billing;
GRANT SELECT, INSERT (series, account_id, at, amount, entry_id, month, body) ON document TO svc_billing;
