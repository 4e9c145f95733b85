-- Months of plans that are closed, and what each provider has of them. What is held of a
-- provider's earnings when a month is closed waits, with its part of the pool, for the end
-- of what is held.

-- +goose Up
CREATE TABLE closed_month (
    month     text PRIMARY KEY CHECK (month ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),
    -- The last day whose earnings share in the pool. What is settled later is late.
    through   date NOT NULL REFERENCES seal,
    pool      bigint NOT NULL CHECK (pool >= 0),
    earned    bigint NOT NULL CHECK (earned >= 0),
    paid      bigint NOT NULL,
    providers bigint NOT NULL CHECK (providers >= 0),
    closed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT closed_month_pays CHECK (paid = least(pool, earned)),
    CONSTRAINT closed_month_is_over CHECK (through >= (month || '-01')::date + interval '1 month')
);

CREATE TABLE closed_share (
    month         text NOT NULL REFERENCES closed_month,
    provider_id   uuid NOT NULL,
    earned        bigint NOT NULL CHECK (earned > 0),
    paid          bigint NOT NULL,
    withheld      bigint NOT NULL CHECK (withheld BETWEEN 0 AND earned),
    withheld_paid bigint NOT NULL,
    PRIMARY KEY (month, provider_id),
    CONSTRAINT closed_share_paid CHECK (paid BETWEEN 0 AND earned),
    CONSTRAINT closed_share_waits CHECK (withheld_paid BETWEEN 0 AND least(withheld, paid))
);

-- The close takes the whole pool, and nothing joins or leaves it afterwards.
CREATE TRIGGER plan_pool_is_open BEFORE INSERT ON posting
    FOR EACH ROW WHEN (NEW.account_kind = 'l:plan_pool' AND NEW.entry_kind <> 'plan_close')
    EXECUTE FUNCTION refuse_closed_pool();

GRANT SELECT, INSERT ON closed_share TO svc_billing;
GRANT SELECT, INSERT (month, through, pool, earned, paid, providers) ON closed_month TO svc_billing;
