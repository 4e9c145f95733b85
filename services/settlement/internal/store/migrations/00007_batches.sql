-- Daily batches and months of plans. All amounts are in nano-USD. Rows are only added; what is set later is set once.

-- +goose Up
CREATE TABLE batch_day (
    day          date PRIMARY KEY,
    seal         bytea NOT NULL CHECK (octet_length(seal) = 32),
    lines        bigint NOT NULL CHECK (lines >= 0),
    collected_at timestamptz NOT NULL DEFAULT now(),
    -- How many requests rest on the ledger's word alone, once the day's batches are committed.
    filled       bigint CHECK (filled >= 0),
    committed_at timestamptz,
    CONSTRAINT batch_day_whole CHECK ((filled IS NULL) = (committed_at IS NULL))
);
COMMENT ON TABLE batch_day IS 'A sealed day of the ledger: first its lines are here, then its batches.';

CREATE TABLE batch_line (
    day         date NOT NULL,
    provider_id uuid NOT NULL,
    -- Counts from 1 within the day, in the ledger's order.
    line        bigint NOT NULL CHECK (line > 0),
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('payg', 'plan', 'orphan', 'refund', 'reversal', 'entry',
        'held', 'released', 'held_refunded', 'forfeited', 'held_reversed')),
    at          timestamptz NOT NULL,
    -- The day inside the request's id.
    request_day date,
    request_id  uuid,
    entry_id    uuid,
    account     text COLLATE "C" NOT NULL CHECK (account IN ('l:provider:accrued', 'l:provider:plan_held',
        'l:provider:payable', 'l:provider:payout_in_flight', 'a:provider_receivable')),
    month       text COLLATE "C" NOT NULL,
    amount      bigint NOT NULL,
    entry_kind  text COLLATE "C" NOT NULL,
    business_id text COLLATE "C" NOT NULL CHECK (octet_length(business_id) <= 512),
    PRIMARY KEY (day, provider_id, line),
    CONSTRAINT batch_line_request CHECK ((request_day IS NULL) = (request_id IS NULL)),
    CONSTRAINT batch_line_month CHECK ((month = '') = (account <> 'l:provider:plan_held')),
    CONSTRAINT batch_line_held CHECK (kind NOT IN ('held', 'released', 'held_refunded', 'forfeited', 'held_reversed')
        OR amount > 0 AND request_id IS NOT NULL)
) PARTITION BY RANGE (day);
COMMENT ON TABLE batch_line IS 'One change of what a provider has earned, as the ledger recorded it on a sealed day.';
CREATE INDEX batch_line_month ON batch_line (month, day, provider_id) WHERE month <> '';
CREATE INDEX batch_line_hold ON batch_line (request_id) WHERE kind = 'held';

CREATE TABLE batch_account (
    provider_id uuid NOT NULL,
    account     text COLLATE "C" NOT NULL CHECK (account IN ('l:provider:accrued', 'l:provider:plan_held',
        'l:provider:payable', 'l:provider:payout_in_flight', 'a:provider_receivable', 'held', 'batched', 'paid',
        'converted')),
    month       text COLLATE "C" NOT NULL,
    PRIMARY KEY (provider_id, account, month)
);
COMMENT ON TABLE batch_account IS 'The accounts of providers: those of the ledger that ever moved, and the sums that settlement keeps beside them: what is held, what earnings batches took from accrued, what was paid out and what became credit.';

CREATE TABLE batch_balance (
    day         date NOT NULL,
    provider_id uuid NOT NULL,
    account     text COLLATE "C" NOT NULL,
    month       text COLLATE "C" NOT NULL,
    moved       bigint NOT NULL,
    balance     bigint NOT NULL,
    PRIMARY KEY (provider_id, account, month, day),
    FOREIGN KEY (provider_id, account, month) REFERENCES batch_account
);
COMMENT ON TABLE batch_balance IS 'An account at the end of a day on which it moved. Of the ledger''s accounts it is the ledger''s word.';
CREATE INDEX batch_balance_day ON batch_balance (day, provider_id);

CREATE TABLE batch_filled (
    day         date NOT NULL REFERENCES batch_day,
    request_id  uuid NOT NULL,
    provider_id uuid NOT NULL,
    PRIMARY KEY (day, request_id)
);
COMMENT ON TABLE batch_filled IS 'Requests of a batch that rest on the ledger''s word alone.';

CREATE TABLE batch_allowance (
    day    date PRIMARY KEY REFERENCES batch_day,
    actor  text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
    at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE batch_allowance IS 'A day that was let go although too many of its lines were filled in from the ledger.';

CREATE TABLE batch_block (
    day         date NOT NULL REFERENCES batch_day,
    provider_id uuid NOT NULL,
    cause       text COLLATE "C" NOT NULL CHECK (cause IN ('lines', 'sums', 'balance', 'held', 'batches')),
    -- How many lines or accounts differ.
    differences bigint NOT NULL CHECK (differences > 0),
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, provider_id, cause)
);
COMMENT ON TABLE batch_block IS 'A provider whose day a witness contradicts. Nothing of the provider is batched until each of its blocks is lifted.';

CREATE TABLE batch_unblock (
    day         date NOT NULL,
    provider_id uuid NOT NULL,
    cause       text COLLATE "C" NOT NULL,
    actor       text COLLATE "C" NOT NULL CHECK (actor = 'platform' OR actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason      text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, provider_id, cause),
    FOREIGN KEY (day, provider_id, cause) REFERENCES batch_block,
    -- Sums and balances of a sealed day never change: only a person can know better.
    CONSTRAINT batch_unblock_platform CHECK (actor <> 'platform' OR cause = 'lines')
);

CREATE TABLE batch (
    day      date NOT NULL REFERENCES batch_day,
    chain_id bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    -- Zero of a batch without shares.
    root     bytea NOT NULL CHECK (octet_length(root) = 32),
    total    bigint NOT NULL CHECK (total >= 0),
    shares   bigint NOT NULL CHECK (shares >= 0),
    PRIMARY KEY (day, chain_id)
);

CREATE TABLE batch_share (
    day         date NOT NULL,
    chain_id    bigint NOT NULL,
    index       bigint NOT NULL CHECK (index >= 0),
    provider_id uuid NOT NULL,
    -- Zero where the provider has none.
    beneficiary bytea NOT NULL CHECK (octet_length(beneficiary) = 20),
    -- All that was earned, is free and was not reversed up to the day's end, and all shares of the days before.
    earned      bigint NOT NULL,
    given       bigint NOT NULL CHECK (given >= 0),
    blocked     boolean NOT NULL,
    amount      bigint NOT NULL,
    lines       bigint NOT NULL CHECK (lines >= 0),
    csv         bytea NOT NULL CHECK (octet_length(csv) = 32),
    statement   bytea NOT NULL CHECK (octet_length(statement) BETWEEN 2 AND 65536),
    -- keccak256 of the statement.
    summary     bytea NOT NULL CHECK (octet_length(summary) = 32),
    -- What of the share was posted: all of it, or what the books still had.
    posted      bigint,
    entry_id    uuid,
    posted_at   timestamptz,
    signature   bytea CHECK (octet_length(signature) = 65),
    signer      bytea CHECK (octet_length(signer) = 20),
    signed_at   timestamptz,
    PRIMARY KEY (day, chain_id, index),
    UNIQUE (day, provider_id),
    FOREIGN KEY (day, chain_id) REFERENCES batch,
    CONSTRAINT batch_share_amount CHECK (amount = CASE WHEN blocked THEN 0 ELSE greatest(earned - given, 0) END),
    CONSTRAINT batch_share_posted CHECK (posted BETWEEN 0 AND amount AND (posted = 0) = (entry_id IS NULL)
        OR posted IS NULL AND entry_id IS NULL),
    CONSTRAINT batch_share_posted_whole CHECK ((posted IS NULL) = (posted_at IS NULL)),
    CONSTRAINT batch_share_signed_whole CHECK (num_nulls(signature, signer, signed_at) IN (0, 3))
);
CREATE INDEX batch_share_given ON batch_share (provider_id, day) INCLUDE (amount, posted);
CREATE INDEX batch_share_unposted ON batch_share (day, chain_id, index) WHERE posted IS NULL;
CREATE INDEX batch_share_unsigned ON batch_share (day, chain_id, index) WHERE signature IS NULL;

CREATE TABLE batch_attempt (
    day         date NOT NULL,
    provider_id uuid NOT NULL,
    attempt     integer NOT NULL CHECK (attempt BETWEEN 1 AND 100),
    amount      bigint NOT NULL CHECK (amount > 0),
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, provider_id, attempt),
    FOREIGN KEY (day, provider_id) REFERENCES batch_share (day, provider_id)
);
COMMENT ON TABLE batch_attempt IS 'An amount that is about to be posted for a share. It is written before it is posted, so that a share whose posting nobody heard of is found.';

CREATE TABLE plan_month (
    month     text COLLATE "C" PRIMARY KEY CHECK (month ~ '^20[0-9]{2}-(0[1-9]|1[0-2])$'),
    through   date NOT NULL REFERENCES batch_day,
    pool      bigint NOT NULL CHECK (pool >= 0),
    earned    bigint NOT NULL CHECK (earned >= 0),
    paid      bigint NOT NULL CHECK (paid BETWEEN 0 AND least(pool, earned)),
    providers bigint NOT NULL CHECK (providers >= 0),
    closed_at timestamptz NOT NULL
);

CREATE TABLE plan_share (
    month         text COLLATE "C" NOT NULL REFERENCES plan_month,
    provider_id   uuid NOT NULL,
    earned        bigint NOT NULL CHECK (earned > 0),
    paid          bigint NOT NULL CHECK (paid BETWEEN 0 AND earned),
    withheld      bigint NOT NULL CHECK (withheld BETWEEN 0 AND earned),
    withheld_paid bigint NOT NULL CHECK (withheld_paid BETWEEN 0 AND paid),
    PRIMARY KEY (month, provider_id)
);
CREATE INDEX plan_share_provider ON plan_share (provider_id, month);

CREATE TABLE plan_late (
    month       text COLLATE "C" NOT NULL REFERENCES plan_month,
    day         date NOT NULL,
    provider_id uuid NOT NULL,
    amount      bigint NOT NULL CHECK (amount > 0),
    entry_id    uuid NOT NULL UNIQUE,
    PRIMARY KEY (month, day, provider_id)
);
COMMENT ON TABLE plan_late IS 'What a provider earned by the plans of a closed month, and the ledger recorded later: posted whole.';

CREATE TABLE plan_release (
    request_id uuid PRIMARY KEY,
    month      text COLLATE "C" NOT NULL REFERENCES plan_month,
    entry_id   uuid NOT NULL UNIQUE
);
COMMENT ON TABLE plan_release IS 'Earnings that were held at the close of their month, and are released: their share is posted.';

-- +goose StatementBegin
DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['batch_line', 'batch_account', 'batch_balance', 'batch_filled', 'batch_allowance',
        'batch_block', 'batch_unblock', 'batch', 'batch_attempt', 'plan_month', 'plan_share', 'plan_late', 'plan_release']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION rows_are_kept()',
            v_table || '_keep', v_table);
    END LOOP;
    FOREACH v_table IN ARRAY ARRAY['batch_day', 'batch_share']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION rows_are_kept()',
            v_table || '_keep', v_table);
    END LOOP;
    FOREACH v_table IN ARRAY ARRAY['batch_day', 'batch_line', 'batch_account', 'batch_balance', 'batch_filled',
        'batch_allowance', 'batch_block', 'batch_unblock', 'batch', 'batch_share', 'batch_attempt', 'plan_month',
        'plan_share', 'plan_late', 'plan_release']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept()',
            v_table || '_keep_all', v_table);
    END LOOP;
END $$;
-- +goose StatementEnd

CREATE TRIGGER batch_day_follows BEFORE INSERT OR UPDATE ON batch_day
    FOR EACH ROW EXECUTE FUNCTION batch_day_follows();
CREATE TRIGGER batch_line_in_time AFTER INSERT ON batch_line REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION batch_collected_once();
CREATE TRIGGER batch_balance_in_time AFTER INSERT ON batch_balance REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION batch_collected_once();
CREATE TRIGGER batch_in_time AFTER INSERT ON batch REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION batch_committed_once();
CREATE TRIGGER batch_share_in_time AFTER INSERT ON batch_share REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION batch_committed_once();
CREATE TRIGGER batch_share_moves BEFORE UPDATE ON batch_share FOR EACH ROW EXECUTE FUNCTION batch_share_moves();
CREATE TRIGGER batch_attempt_fits BEFORE INSERT ON batch_attempt FOR EACH ROW EXECUTE FUNCTION batch_attempt_fits();

GRANT SELECT, INSERT (day, seal, lines), UPDATE (filled, committed_at) ON batch_day TO svc_settlement;
GRANT SELECT, INSERT ON batch_line, batch_account, batch_balance, batch_filled, batch, plan_month, plan_share,
    plan_late, plan_release TO svc_settlement;
GRANT SELECT, INSERT (day, actor, reason) ON batch_allowance TO svc_settlement;
GRANT SELECT, INSERT (day, provider_id, cause, differences) ON batch_block TO svc_settlement;
GRANT SELECT, INSERT (day, provider_id, cause, actor, reason) ON batch_unblock TO svc_settlement;
GRANT SELECT, INSERT (day, provider_id, attempt, amount) ON batch_attempt TO svc_settlement;
GRANT SELECT, INSERT (day, chain_id, index, provider_id, beneficiary, earned, given, blocked, amount, lines, csv,
    statement, summary), UPDATE (posted, entry_id, posted_at, signature, signer, signed_at)
    ON batch_share TO svc_settlement;
