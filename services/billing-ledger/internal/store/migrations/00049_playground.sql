-- Sessions of visitors without a key, and the account of the platform that pays for them.

-- +goose Up

-- How many sessions there are. Whoever adds or deletes sessions locks its row first.
CREATE TABLE visitor_session_count (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    live integer NOT NULL CONSTRAINT visitor_session_count_bounds CHECK (live BETWEEN 0 AND 100000)
);
INSERT INTO visitor_session_count (live) VALUES (0);

CREATE TABLE visitor_session (
    -- Of the secret in the visitor's cookie, which is stored nowhere.
    secret_sha256 bytea PRIMARY KEY CHECK (octet_length(secret_sha256) = 32),
    -- The keyed hash of the network in which it was opened, as in visitor.
    network       bytea NOT NULL CHECK (octet_length(network) = 32),
    -- A network has 16 places.
    place         smallint NOT NULL CHECK (place BETWEEN 1 AND 16),
    opened_at     timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    CONSTRAINT visitor_session_place UNIQUE (network, place),
    CONSTRAINT visitor_session_life CHECK (expires_at = opened_at + interval '1 hour')
);
CREATE INDEX visitor_session_expires ON visitor_session (expires_at);

CREATE TRIGGER visitor_session_comes AFTER INSERT ON visitor_session
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_visitor_sessions();
CREATE TRIGGER visitor_session_goes AFTER DELETE ON visitor_session
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_visitor_sessions();

-- The account that pays. There is one at most.
CREATE TABLE playground_account (
    account_id uuid PRIMARY KEY REFERENCES account,
    opened_at  timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX playground_account_is_one ON playground_account ((true));

-- The budget of each day (UTC) on which a visitor came.
CREATE TABLE playground_day (
    day    date PRIMARY KEY,
    budget bigint NOT NULL CONSTRAINT playground_day_budget CHECK (budget BETWEEN 1 AND 1000000000000000)
);

INSERT INTO entry_kind (kind, line) VALUES ('playground', 21);

INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('playground', 'e:playground', 'debit', 'usd'),
    ('playground', 'l:consumer:available', 'credit', 'usd'),
    ('reversal', 'e:playground', 'credit', 'usd');

CREATE CONSTRAINT TRIGGER playground_funds_its_account AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.entry_kind = 'playground' AND NEW.account_kind = 'l:consumer:available')
    EXECUTE FUNCTION check_playground_funding();

GRANT SELECT, UPDATE (live) ON visitor_session_count TO svc_billing;
GRANT SELECT, INSERT, DELETE ON visitor_session TO svc_billing;
GRANT SELECT, INSERT (account_id) ON playground_account TO svc_billing;
GRANT SELECT, INSERT, UPDATE (budget) ON playground_day TO svc_billing;
