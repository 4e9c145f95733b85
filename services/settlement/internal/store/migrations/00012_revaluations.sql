-- How the coins that the books have were valued, once a day each. The entries are
-- billing-ledger's.

-- +goose Up
CREATE TABLE revaluation (
    day       date NOT NULL,
    token     text NOT NULL,
    -- Of 10^-9 coins, and what they stood for in the books.
    units     bigint NOT NULL,
    booked    bigint NOT NULL,
    worth     bigint NOT NULL,
    rate      bigint NOT NULL CHECK (rate > 0),
    source    text NOT NULL CHECK (char_length(source) BETWEEN 1 AND 64),
    quoted_at timestamptz NOT NULL,
    -- Null where nothing changed.
    entry_id  uuid UNIQUE,
    kept_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, token),
    CONSTRAINT revaluation_of_coin CHECK (token ~ '^[1-9][0-9]{0,9}:(native|eth)$'),
    CONSTRAINT revaluation_posted CHECK ((entry_id IS NULL) = (worth = booked)),
    -- Rounded half to even.
    CONSTRAINT revaluation_worth CHECK (2 * abs(worth::numeric * 1000000000 - units::numeric * rate) < 1000000000
        OR 2 * abs(worth::numeric * 1000000000 - units::numeric * rate) = 1000000000 AND worth % 2 = 0),
    CONSTRAINT revaluation_of_past CHECK (day <= (kept_at AT TIME ZONE 'UTC')::date)
);

CREATE TRIGGER revaluation_moves BEFORE UPDATE OR DELETE ON revaluation
    FOR EACH ROW EXECUTE FUNCTION revaluation_moves();

GRANT SELECT, INSERT (day, token, units, booked, worth, rate, source, quoted_at, entry_id) ON revaluation
    TO svc_settlement;
GRANT UPDATE (units, booked, worth, rate, source, quoted_at, entry_id) ON revaluation TO svc_settlement;
