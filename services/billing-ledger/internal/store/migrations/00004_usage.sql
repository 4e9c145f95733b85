-- Settled requests. One row is a whole balanced entry, read by its source:
--
--   payg    D consumer charged, D e:shortfall shortfall,
--           C provider accrued payout, C r:usage_margin fee
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
    source                text NOT NULL CHECK (source IN ('payg', 'free', 'orphan')),
    ending                text NOT NULL CHECK (ending IN ('completed', 'client_gone', 'provider_lost', 'truncated',
                                                          'engine_error', 'wall_limit', 'platform_lost')),
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
    CONSTRAINT free_costs_nothing CHECK (source <> 'free' OR list_price = 0)
) PARTITION BY RANGE (day);

-- For the sums per day and provider, without touching the wide rows.
CREATE INDEX usage_settlement_accrual ON usage_settlement (day, provider_id) INCLUDE (payout);

-- Takes days for which no partition was made in time; normally empty.
CREATE TABLE usage_settlement_default PARTITION OF usage_settlement DEFAULT;

-- ensure_usage_partitions makes the partitions of a span of days around today
-- and returns how many it made. It runs as the owner, because the application
-- role may not create tables. A partition is built apart and then attached,
-- which does not lock out writers of the others. A day that already has rows
-- in the default partition stays there.
-- +goose StatementBegin
CREATE FUNCTION ensure_usage_partitions(p_back integer, p_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = billing, pg_temp AS $$
DECLARE
    v_today date := (now() AT TIME ZONE 'UTC')::date;
    v_day   date;
    v_name  text;
    v_made  integer := 0;
BEGIN
    IF p_back NOT BETWEEN 0 AND 31 OR p_ahead NOT BETWEEN 0 AND 31 THEN
        RAISE EXCEPTION 'a span of % days back and % ahead is out of range', p_back, p_ahead;
    END IF;
    -- One at a time; the others find the work done.
    PERFORM pg_advisory_xact_lock(hashtext('billing.ensure_usage_partitions'));
    PERFORM set_config('lock_timeout', '2s', true);
    FOR i IN -p_back .. p_ahead LOOP
        v_day := v_today + i;
        v_name := 'usage_settlement_' || to_char(v_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(v_name) IS NOT NULL;
        CONTINUE WHEN EXISTS (SELECT FROM usage_settlement_default WHERE day = v_day);
        EXECUTE format('CREATE TABLE %I (LIKE usage_settlement INCLUDING ALL)', v_name);
        EXECUTE format('ALTER TABLE usage_settlement ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            v_name, v_day, v_day + 1);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END $$;
-- +goose StatementEnd

-- What could not be settled, kept for people to look at. A repeat adds nothing.
CREATE TABLE quarantine (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reason       text NOT NULL CHECK (reason IN ('undecodable', 'invalid', 'unknown_request', 'altered',
                                                 'price_mismatch', 'above_hold', 'refused')),
    request_id   uuid,
    hub_id       text,
    detail       text NOT NULL CHECK (char_length(detail) <= 500),
    payload      bytea NOT NULL CHECK (octet_length(payload) <= 65536),
    payload_hash bytea NOT NULL CHECK (octet_length(payload_hash) = 32),
    received_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (payload_hash, reason)
);

REVOKE ALL ON FUNCTION ensure_usage_partitions(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_usage_partitions(integer, integer) TO svc_billing;
GRANT SELECT, INSERT ON usage_settlement, quarantine TO svc_billing;
