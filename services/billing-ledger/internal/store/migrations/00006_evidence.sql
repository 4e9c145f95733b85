-- What is known of requests apart from the hub's usage: gateways' accounts of them,
-- what providers sign that they sent, and the reviews of requests whose hub says
-- nothing. A hold with evidence is reviewed: its usage is published from the
-- gateway's count, a bounded number of times, and only then may it expire.

-- +goose Up
-- The gateways' own accounts of how requests ended.
CREATE TABLE request_report (
    request_id         uuid PRIMARY KEY,
    outcome            text NOT NULL CHECK (outcome IN ('completed', 'client_gone', 'failed', 'timeout', 'refused')),
    committed_attempt  integer NOT NULL CHECK (committed_attempt >= 0),
    -- Where the committed attempt ran; null when that is not known.
    hub_id             text CHECK (char_length(hub_id) <= 64),
    provider_id        uuid,
    relayed_tokens     bigint NOT NULL CHECK (relayed_tokens >= 0),
    relayed_bytes      bigint NOT NULL CHECK (relayed_bytes >= 0),
    -- What the hub told that it bills; null when it did not finish.
    metered_prompt     bigint CHECK (metered_prompt >= 0),
    metered_completion bigint CHECK (metered_completion >= 0),
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
    recorded_at        timestamptz NOT NULL DEFAULT now(),
    -- The request that this one was continued as.
    continued_as       uuid CONSTRAINT request_report_continues_another CHECK (continued_as <> request_id),
    CONSTRAINT request_report_metered CHECK ((metered_prompt IS NULL) = (metered_completion IS NULL)),
    CONSTRAINT request_report_provider CHECK (provider_id IS NULL OR committed_attempt > 0)
);

-- Words that an answer broke off may come late: they are among these.
CREATE INDEX request_report_broken ON request_report (recorded_at)
    WHERE outcome = 'failed' AND committed_attempt > 0 AND metered_prompt IS NULL;

-- The last word of gateways on requests that still ran.
CREATE TABLE renewal (
    request_id        uuid PRIMARY KEY,
    committed_attempt integer NOT NULL CHECK (committed_attempt >= 0),
    hub_id            text NOT NULL CHECK (char_length(hub_id) <= 64),
    provider_id       uuid,
    relayed_tokens    bigint NOT NULL CHECK (relayed_tokens >= 0),
    relayed_bytes     bigint NOT NULL CHECK (relayed_bytes >= 0),
    renewed_at        timestamptz NOT NULL DEFAULT now(),
    CHECK ((committed_attempt > 0) = (provider_id IS NOT NULL)),
    CHECK (committed_attempt > 0 OR (relayed_tokens = 0 AND relayed_bytes = 0))
) WITH (fillfactor = 70);

-- A count never shrinks, and an attempt once committed to stands.
CREATE TRIGGER renewal_only_grows BEFORE UPDATE ON renewal
    FOR EACH ROW WHEN (NEW.request_id <> OLD.request_id
        OR NEW.relayed_tokens < OLD.relayed_tokens OR NEW.relayed_bytes < OLD.relayed_bytes
        OR OLD.committed_attempt > 0 AND (NEW.committed_attempt, NEW.hub_id, NEW.provider_id)
            IS DISTINCT FROM (OLD.committed_attempt, OLD.hub_id, OLD.provider_id))
    EXECUTE FUNCTION refuse_change();

-- Requests whose usage was published from the gateway's count: how often, and
-- when it is next due; null when it is not.
CREATE TABLE orphan_review (
    request_id   uuid PRIMARY KEY,
    publications integer NOT NULL CHECK (publications BETWEEN 1 AND 13),
    next_at      timestamptz,
    opened_at    timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX orphan_review_due ON orphan_review (next_at) WHERE next_at IS NOT NULL;

CREATE TRIGGER orphan_review_counts_up BEFORE UPDATE ON orphan_review
    FOR EACH ROW WHEN (NEW.request_id <> OLD.request_id OR NEW.publications NOT IN (OLD.publications, OLD.publications + 1))
    EXECUTE FUNCTION refuse_change();

-- The third evidence source: what providers sign that they sent, of requests whose hub
-- knows nothing of them any more.
CREATE TABLE work_receipt (
    request_id         uuid NOT NULL,
    attempt            integer NOT NULL CHECK (attempt BETWEEN 1 AND 1073741824),
    provider_id        uuid NOT NULL,
    -- Of the provider's session, and the hub that dispatched on it.
    epoch              bigint NOT NULL,
    hub_id             text NOT NULL CHECK (char_length(hub_id) <= 64),
    model_id           text NOT NULL CHECK (char_length(model_id) BETWEEN 1 AND 255),
    -- What the engine claimed; null when it did not.
    claimed_prompt     bigint CHECK (claimed_prompt >= 0),
    claimed_completion bigint CHECK (claimed_completion >= 0),
    sent_tokens        bigint NOT NULL CHECK (sent_tokens > 0),
    sent_bytes         bigint NOT NULL CHECK (sent_bytes > 0),
    complete           boolean NOT NULL,
    ended_at           timestamptz NOT NULL,
    -- What was signed can be put together again from the above and these.
    proof              bytea NOT NULL CHECK (octet_length(proof) BETWEEN 1 AND 128),
    public_key         bytea NOT NULL CHECK (octet_length(public_key) = 32),
    signature          bytea NOT NULL CHECK (octet_length(signature) = 64),
    received_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (request_id, attempt),
    CONSTRAINT work_receipt_claim CHECK ((claimed_prompt IS NULL) = (claimed_completion IS NULL))
);

CREATE TRIGGER work_receipt_stands BEFORE UPDATE ON work_receipt
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Attempts of which nothing is owed although their provider may have served:
-- their caller vanished before any content was relayed. What the provider signs
-- of them counts for nothing, unless a gateway says that it relayed content of
-- that very attempt.
CREATE TABLE void_attempt (
    request_id  uuid NOT NULL,
    attempt     integer NOT NULL CHECK (attempt BETWEEN 1 AND 1073741824),
    -- Who dispatched it, and to whom.
    hub_id      text NOT NULL CHECK (char_length(hub_id) BETWEEN 1 AND 64),
    provider_id uuid NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (request_id, attempt)
);

CREATE INDEX void_attempt_age ON void_attempt (received_at);

CREATE TRIGGER void_attempt_stands BEFORE UPDATE ON void_attempt
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Receipts are taken up to a day after the end of a hold; a week is for holds
-- whose reviews take long.
CREATE TRIGGER void_attempt_is_kept BEFORE DELETE ON void_attempt
    FOR EACH ROW WHEN (OLD.received_at > now() - interval '7 days')
    EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT ON request_report, renewal, orphan_review, work_receipt TO svc_billing;
GRANT UPDATE (committed_attempt, hub_id, provider_id, relayed_tokens, relayed_bytes, renewed_at) ON renewal TO svc_billing;
GRANT UPDATE (publications, next_at) ON orphan_review TO svc_billing;
GRANT SELECT, DELETE ON void_attempt TO svc_billing;
GRANT INSERT (request_id, attempt, hub_id, provider_id) ON void_attempt TO svc_billing;
