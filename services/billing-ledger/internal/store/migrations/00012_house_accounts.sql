-- House accounts: accounts of the platform itself, which pay for hidden probes of
-- providers. Everywhere else they are accounts like all others. This table and the rules
-- of postings keep the money for verification in them.

-- +goose Up
CREATE TABLE house_account (
    account_id uuid PRIMARY KEY REFERENCES account,
    opened_at  timestamptz NOT NULL DEFAULT now()
);

INSERT INTO entry_kind (kind, line) VALUES ('verification', 21);

INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('verification', 'e:verification', 'debit', 'usd'),
    ('verification', 'l:consumer:available', 'credit', 'usd'),
    ('reversal', 'e:verification', 'credit', 'usd');

-- Finds what house accounts were given lately.
CREATE INDEX entry_verification ON entry (at) WHERE kind = 'verification';

CREATE TRIGGER verification_funds_house_accounts BEFORE INSERT ON posting
    FOR EACH ROW WHEN (NEW.entry_kind = 'verification' AND NEW.account_kind = 'l:consumer:available')
    EXECUTE FUNCTION refuse_stray_verification();

GRANT SELECT, INSERT (account_id) ON house_account TO svc_billing;
