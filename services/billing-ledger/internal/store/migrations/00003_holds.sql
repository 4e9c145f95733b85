-- Holds: one for each admitted request, with everything that was pinned at its
-- admission, so that no later change of a price or a limit reaches it.

-- +goose Up
CREATE TABLE hold (
    request_id            uuid PRIMARY KEY,
    account_id            uuid NOT NULL,
    key_id                uuid NOT NULL,
    model_id              text NOT NULL CHECK (char_length(model_id) BETWEEN 1 AND 255),
    billing_type          text NOT NULL CHECK (billing_type IN ('payg', 'free')),
    -- nano-USD set aside in the wallet while the hold is open.
    amount                bigint NOT NULL CHECK (amount >= 0),
    prompt_tokens         bigint NOT NULL CHECK (prompt_tokens >= 0),
    max_completion_tokens bigint NOT NULL CHECK (max_completion_tokens >= 0),
    pinned                boolean NOT NULL,
    price_version_id      uuid NOT NULL,
    -- pico-USD per token.
    input_rate            bigint NOT NULL CHECK (input_rate >= 0),
    output_rate           bigint NOT NULL CHECK (output_rate >= 0),
    payout_input_rate     bigint NOT NULL CHECK (payout_input_rate >= 0 AND payout_input_rate <= input_rate),
    payout_output_rate    bigint NOT NULL CHECK (payout_output_rate >= 0 AND payout_output_rate <= output_rate),
    -- What the caller was told of its rate, so that a repeat is told the same;
    -- a limit of 0 is none.
    rate_limit            integer NOT NULL CHECK (rate_limit >= 0),
    rate_remaining        integer NOT NULL CHECK (rate_remaining >= 0),
    rate_reset_at         timestamptz NOT NULL,
    state                 text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'settled', 'released', 'expired')),
    admitted_at           timestamptz NOT NULL DEFAULT now(),
    expires_at            timestamptz NOT NULL,
    closed_at             timestamptz,
    CHECK (billing_type = 'payg' OR amount = 0),
    CHECK (billing_type = 'payg' OR (input_rate = 0 AND output_rate = 0)),
    CHECK ((state = 'open') = (closed_at IS NULL)),
    CHECK (expires_at > admitted_at)
);

CREATE INDEX hold_open ON hold (expires_at) WHERE state = 'open';

-- A hold begins open and is closed once.
CREATE TRIGGER hold_begins_open BEFORE INSERT ON hold
    FOR EACH ROW WHEN (NEW.state <> 'open') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER hold_closes_once BEFORE UPDATE ON hold
    FOR EACH ROW WHEN (OLD.state <> 'open' OR NEW.state = 'open') EXECUTE FUNCTION refuse_change();

-- The gateways' own accounts of how requests ended.
CREATE TABLE witness (
    request_id         uuid PRIMARY KEY,
    outcome            text NOT NULL CHECK (outcome IN ('completed', 'client_gone', 'failed', 'timeout', 'refused')),
    committed_attempt  integer NOT NULL CHECK (committed_attempt >= 0),
    relayed_tokens     bigint NOT NULL CHECK (relayed_tokens >= 0),
    relayed_bytes      bigint NOT NULL CHECK (relayed_bytes >= 0),
    http_status        integer NOT NULL CHECK (http_status BETWEEN 0 AND 599),
    error_code         text NOT NULL CHECK (char_length(error_code) <= 64),
    route_mode         text NOT NULL CHECK (route_mode IN ('', 'auto', 'explicit')),
    requested_provider text NOT NULL CHECK (char_length(requested_provider) <= 64),
    fallback_reason    text NOT NULL CHECK (char_length(fallback_reason) <= 64),
    stream             boolean NOT NULL,
    attempts           jsonb NOT NULL CHECK (jsonb_typeof(attempts) = 'array' AND jsonb_array_length(attempts) <= 16),
    received_at        timestamptz,
    first_content_ms   bigint NOT NULL CHECK (first_content_ms >= 0),
    total_ms           bigint NOT NULL CHECK (total_ms >= 0),
    recorded_at        timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT ON hold, witness TO svc_billing;
GRANT UPDATE (state, closed_at) ON hold TO svc_billing;
