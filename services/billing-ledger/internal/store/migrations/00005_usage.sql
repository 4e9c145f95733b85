-- Settled requests. One row is a whole balanced entry, read by its source:
--
--   payg    D consumer charged, D e:shortfall shortfall,
--           C provider accrued payout, C r:usage_margin fee
--   plan    D x:plan_accrual payout, C l:provider:plan_held payout
--   free    nothing moves; every amount is zero
--   orphan  nothing here: the entry orphan_work of the same request has it
--
-- so that no account but the consumer's own wallet is locked by a request.

-- +goose Up
CREATE TABLE usage_settlement (
    -- The UTC day inside the request id (a UUID of version 7), never that of
    -- settling, so that a late delivery meets the same row.
    day                   date NOT NULL,
    request_id            uuid NOT NULL,
    account_id            uuid NOT NULL,
    key_id                uuid NOT NULL,
    provider_id           uuid NOT NULL,
    hub_id                text NOT NULL,
    attempt               integer NOT NULL CHECK (attempt > 0),
    epoch                 bigint NOT NULL,
    model_id              text NOT NULL,
    price_version_id      uuid NOT NULL,
    unit                  smallint NOT NULL DEFAULT 0 CHECK (unit BETWEEN 0 AND 2),
    input_rate            bigint NOT NULL,
    output_rate           bigint NOT NULL,
    payout_input_rate     bigint NOT NULL,
    payout_output_rate    bigint NOT NULL,
    prompt_tokens         bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens     bigint NOT NULL CHECK (completion_tokens >= 0),
    list_price            bigint NOT NULL,
    payout                bigint NOT NULL,
    fee                   bigint NOT NULL GENERATED ALWAYS AS (list_price - payout) STORED,
    charged               bigint NOT NULL CHECK (charged >= 0),
    shortfall             bigint NOT NULL CHECK (shortfall >= 0),
    source                text NOT NULL CHECK (source IN ('payg', 'plan', 'free', 'orphan')),
    ending                text NOT NULL CHECK (ending IN ('completed', 'client_gone', 'provider_lost', 'truncated',
                                                          'engine_error', 'wall_limit', 'platform_lost')),
    -- On whose count it rests.
    evidence_source       text NOT NULL DEFAULT 'hub' CHECK (evidence_source IN ('hub', 'gateway', 'receipt')),
    claim_state           text NOT NULL CHECK (claim_state IN ('absent', 'valid', 'absurd')),
    claimed_prompt        bigint NOT NULL,
    claimed_completion    bigint NOT NULL,
    recounted_completion  bigint NOT NULL,
    delivered_bytes       bigint NOT NULL,
    estimated_prompt      bigint NOT NULL,
    route_mode            text NOT NULL CHECK (route_mode IN ('', 'auto', 'explicit')),
    requested_provider    text NOT NULL,
    fallback_reason       text NOT NULL,
    payload_hash          bytea NOT NULL CHECK (octet_length(payload_hash) = 32),
    first_content_ms      bigint NOT NULL,
    dispatched_at         timestamptz,
    ended_at              timestamptz,
    settled_at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (day, request_id),
    CONSTRAINT day_of_request CHECK (day = date '1970-01-01'
        + (('x' || left(replace(request_id::text, '-', ''), 12))::bit(48)::bigint / 86400000)::integer),
    CONSTRAINT payout_within_list_price CHECK (0 <= payout AND payout <= list_price),
    CONSTRAINT payg_is_charged CHECK (source <> 'payg' OR charged + shortfall = list_price),
    CONSTRAINT only_payg_is_charged CHECK (source = 'payg' OR (charged = 0 AND shortfall = 0)),
    CONSTRAINT free_costs_nothing CHECK (source <> 'free' OR list_price = 0),
    CONSTRAINT usage_counts_images CHECK (unit <> 1 OR (input_rate = 0 AND prompt_tokens = 0)),
    CONSTRAINT usage_counts_audio CHECK (unit <> 2 OR (output_rate = 0 AND completion_tokens = 0))
) PARTITION BY RANGE (day);

-- For the sums per day and provider, without touching the wide rows.
CREATE INDEX usage_settlement_accrual ON usage_settlement (day, provider_id) INCLUDE (payout);
CREATE INDEX usage_settlement_recorded ON usage_settlement (settled_at);

-- Takes days for which no partition was made in time; normally empty.
CREATE TABLE usage_settlement_default PARTITION OF usage_settlement DEFAULT;

CREATE TRIGGER usage_day_open AFTER INSERT ON usage_settlement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_closed_day();
CREATE TRIGGER usage_recorded_now BEFORE INSERT ON usage_settlement
    FOR EACH ROW WHEN (NEW.settled_at IS DISTINCT FROM now()) EXECUTE FUNCTION refuse_change();

-- What could not be settled, kept for people to look at. A repeat adds nothing.
CREATE TABLE quarantine (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reason       text NOT NULL CHECK (reason IN ('undecodable', 'invalid', 'unknown_request', 'altered',
                                                 'price_mismatch', 'above_hold', 'refused', 'forged', 'unknown_key')),
    request_id   uuid,
    hub_id       text,
    detail       text NOT NULL CHECK (char_length(detail) <= 500),
    payload      bytea NOT NULL CHECK (octet_length(payload) <= 65536),
    payload_hash bytea NOT NULL CHECK (octet_length(payload_hash) = 32),
    received_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (payload_hash, reason)
);

-- The keys under which hubs seal their usage, for good: usage may come long after
-- its hub has gone.
CREATE TABLE usage_key (
    hub_id     text NOT NULL CHECK (hub_id ~ '^[a-z0-9-]{1,32}$'),
    key_id     bytea NOT NULL CHECK (octet_length(key_id) = 8),
    secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (hub_id, key_id)
);

CREATE INDEX usage_key_new ON usage_key (hub_id, created_at);
CREATE TRIGGER usage_key_bound AFTER INSERT ON usage_key
    FOR EACH ROW EXECUTE FUNCTION bound_usage_keys();

-- What the ledger's own proofs follow from, made at the first start.
CREATE TABLE ledger_secret (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT ON usage_settlement, quarantine, usage_key, ledger_secret TO svc_billing;
