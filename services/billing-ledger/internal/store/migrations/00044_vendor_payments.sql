-- What vendors of gateway models are paid (line 8).

-- +goose Up

-- The invoices of vendors. Above $10,000 two operators who signed in say the same of an invoice,
-- and it waits for the second: until then nothing is posted, and it may still be corrected. What
-- is paid never changes.
CREATE TABLE vendor_invoice (
    vendor_id uuid NOT NULL REFERENCES vendor,
    -- In capitals, so that one invoice has one number however it is typed.
    number    text COLLATE "C" NOT NULL CHECK (number ~ '^[A-Z0-9]([A-Z0-9 ._/#:-]{0,62}[A-Z0-9])?$'),
    -- What the invoice asks for, which the bank pays, and what was counted here of the same service.
    amount    bigint NOT NULL CHECK (amount > 0),
    counted   bigint NOT NULL CHECK (counted > 0),
    note      text NOT NULL CHECK (char_length(note) BETWEEN 1 AND 200),
    asked_by  text NOT NULL CHECK (asked_by ~ '^operator:[a-z0-9._@-]{1,64}$'),
    asked_at  timestamptz NOT NULL DEFAULT now(),
    paid_by   text CHECK (paid_by ~ '^operator:[a-z0-9._@-]{1,64}$'),
    paid_at   timestamptz,
    PRIMARY KEY (vendor_id, number),
    CONSTRAINT vendor_invoice_is_paid CHECK ((paid_by IS NULL) = (paid_at IS NULL)),
    CONSTRAINT vendor_invoice_by_two CHECK (paid_at IS NULL OR greatest(amount, counted) <= 10000000000000
        OR paid_by <> asked_by AND paid_by LIKE '%@%' AND asked_by LIKE '%@%')
);
CREATE INDEX vendor_invoice_paid ON vendor_invoice (vendor_id, paid_at) INCLUDE (amount) WHERE paid_at IS NOT NULL;
CREATE INDEX vendor_invoice_waiting ON vendor_invoice (vendor_id, asked_at) WHERE paid_at IS NULL;
GRANT SELECT, INSERT (vendor_id, number, amount, counted, note, asked_by, paid_by, paid_at),
    UPDATE (amount, counted, note, asked_by, asked_at, paid_by, paid_at) ON vendor_invoice TO svc_billing;

CREATE TRIGGER vendor_invoice_stands BEFORE UPDATE OR DELETE ON vendor_invoice FOR EACH ROW
    WHEN (OLD.paid_at IS NOT NULL) EXECUTE FUNCTION refuse_change();
CREATE CONSTRAINT TRIGGER vendor_invoice_is_posted AFTER INSERT OR UPDATE ON vendor_invoice
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.paid_at IS NOT NULL)
    EXECUTE FUNCTION check_vendor_invoice();

-- An invoice that differs from what was counted moves the margin of usage, which is list price
-- less what vendors ask.
INSERT INTO entry_kind (kind, line) VALUES ('vendor_corrected', 8);
INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('vendor_corrected', 'l:vendor:payable', 'debit', 'usd'),
    ('vendor_corrected', 'l:vendor:payable', 'credit', 'usd'),
    ('vendor_corrected', 'r:usage_margin', 'debit', 'usd'),
    ('vendor_corrected', 'r:usage_margin', 'credit', 'usd'),
    ('reversal', 'r:usage_margin', 'debit', 'usd'),
    ('reversal', 'r:usage_margin', 'credit', 'usd')
ON CONFLICT DO NOTHING;
