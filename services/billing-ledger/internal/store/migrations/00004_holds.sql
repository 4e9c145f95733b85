-- Holds: one for each admitted request, with everything that was pinned at its
-- admission, so that no later change of a price or a limit reaches it.
--
-- A hold is a lease: it is open until expires_at, which renewals and the word that
-- something was served push forward. One that is over without evidence expires; one
-- with evidence is reviewed (see 00006_evidence.sql).
--
-- Whatever pins rates says what they are for: unit 0 a token, 1 an image, 2 a minute
-- of audio; columns that are named after tokens count in it: images are the
-- completion, milliseconds of audio the prompt.

-- +goose Up
CREATE TABLE hold (
    request_id            uuid PRIMARY KEY,
    account_id            uuid NOT NULL,
    key_id                uuid NOT NULL,
    model_id              text NOT NULL CHECK (char_length(model_id) BETWEEN 1 AND 255),
    billing_type          text NOT NULL,
    -- nano-USD set aside in the wallet while the hold is open.
    amount                bigint NOT NULL CHECK (amount >= 0),
    prompt_tokens         bigint NOT NULL CHECK (prompt_tokens >= 0),
    max_completion_tokens bigint NOT NULL CHECK (max_completion_tokens >= 0),
    images                integer NOT NULL DEFAULT 0 CHECK (images >= 0),
    pinned                boolean NOT NULL,
    price_version_id      uuid NOT NULL,
    unit                  smallint NOT NULL DEFAULT 0 CHECK (unit BETWEEN 0 AND 2),
    -- pico-USD per unit.
    input_rate            bigint NOT NULL CHECK (input_rate >= 0),
    output_rate           bigint NOT NULL CHECK (output_rate >= 0),
    payout_input_rate     bigint NOT NULL,
    payout_output_rate    bigint NOT NULL,
    -- What the caller was told of its rate, so that a repeat is told the same;
    -- a limit of 0 is none.
    rate_limit            integer NOT NULL CHECK (rate_limit >= 0),
    rate_remaining        integer NOT NULL CHECK (rate_remaining >= 0),
    rate_reset_at         timestamptz NOT NULL,
    -- The plan that covers it, with the day (UTC) from which every window follows.
    plan_id               text,
    plan_tier             smallint,
    plan_day              date,
    -- nano-USD at list price, of the estimate.
    plan_price            bigint CHECK (plan_price >= 0),
    -- The request and its images were given back to the plan.
    plan_refunded         boolean NOT NULL DEFAULT false,
    state                 text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'settled', 'released', 'expired')),
    admitted_at           timestamptz NOT NULL DEFAULT now(),
    expires_at            timestamptz NOT NULL,
    closed_at             timestamptz,
    CONSTRAINT hold_check CHECK (payout_input_rate >= 0 AND payout_input_rate <= input_rate),
    CONSTRAINT hold_check1 CHECK (payout_output_rate >= 0 AND payout_output_rate <= output_rate),
    CONSTRAINT hold_check2 CHECK (billing_type = 'payg' OR amount = 0),
    CONSTRAINT hold_check4 CHECK ((state = 'open') = (closed_at IS NULL)),
    CONSTRAINT hold_check5 CHECK (expires_at > admitted_at),
    CONSTRAINT hold_billing_type CHECK (billing_type IN ('payg', 'free', 'plan')),
    CONSTRAINT hold_free_is_free CHECK (billing_type <> 'free' OR (input_rate = 0 AND output_rate = 0)),
    CONSTRAINT hold_plan_is_pinned CHECK (
        num_nonnulls(plan_id, plan_tier, plan_day, plan_price) = CASE billing_type WHEN 'plan' THEN 4 ELSE 0 END),
    CONSTRAINT hold_pin_is_payg CHECK (NOT pinned OR billing_type = 'payg'),
    CONSTRAINT hold_refund CHECK (NOT plan_refunded OR billing_type = 'plan' AND state <> 'open'),
    CONSTRAINT hold_counts_images CHECK (unit <> 1 OR (input_rate = 0 AND prompt_tokens = 0 AND images = max_completion_tokens)),
    CONSTRAINT hold_counts_audio CHECK (unit <> 2 OR (output_rate = 0 AND max_completion_tokens = 0))
);

CREATE INDEX hold_open ON hold (expires_at) WHERE state = 'open';
-- For the checks of plans against what they covered.
CREATE INDEX hold_plan ON hold (account_id, plan_day) WHERE plan_id IS NOT NULL;

-- A hold begins open and is closed once. A lease moves forward only; everything
-- else of an open hold stands.
CREATE TRIGGER hold_begins_open BEFORE INSERT ON hold
    FOR EACH ROW WHEN (NEW.state <> 'open') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER hold_closes_once BEFORE UPDATE ON hold
    FOR EACH ROW WHEN (OLD.state <> 'open' OR NEW.expires_at < OLD.expires_at)
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER hold_expires_reviewed BEFORE UPDATE ON hold
    FOR EACH ROW WHEN (NEW.state = 'expired') EXECUTE FUNCTION refuse_unreviewed();

GRANT SELECT, INSERT ON hold TO svc_billing;
GRANT UPDATE (state, closed_at, expires_at, plan_refunded) ON hold TO svc_billing;
