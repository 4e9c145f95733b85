-- Holds as leases, and what is known of requests whose hub says nothing.
--
-- A hold is open until expires_at, which renewals and the word that something
-- was served push forward. One that is over without evidence expires; one with
-- evidence is reviewed: its usage is published from the gateway's count, a
-- bounded number of times, and only then may it expire as well.

-- +goose Up
ALTER TABLE witness
    -- Where the committed attempt ran; null when that is not known.
    ADD COLUMN hub_id             text CHECK (char_length(hub_id) <= 64),
    ADD COLUMN provider_id        uuid,
    -- What the hub told that it bills; null when it did not finish.
    ADD COLUMN metered_prompt     bigint CHECK (metered_prompt >= 0),
    ADD COLUMN metered_completion bigint CHECK (metered_completion >= 0),
    ADD CONSTRAINT witness_metered CHECK ((metered_prompt IS NULL) = (metered_completion IS NULL)),
    ADD CONSTRAINT witness_provider CHECK (provider_id IS NULL OR committed_attempt > 0);

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

-- What gateways know of requests of which something was served by a provider
-- that can be paid. The witness is the last word; a renewal stands in for it.
CREATE VIEW evidence AS
    SELECT request_id, committed_attempt, coalesce(hub_id, '') AS hub_id, provider_id, relayed_tokens, relayed_bytes,
        metered_prompt, metered_completion, route_mode, requested_provider, fallback_reason, first_content_ms,
        recorded_at AS told_at
    FROM witness
    WHERE committed_attempt > 0 AND provider_id IS NOT NULL AND relayed_tokens > 0 AND relayed_bytes > 0
    UNION ALL
    SELECT request_id, committed_attempt, hub_id, provider_id, relayed_tokens, relayed_bytes,
        NULL, NULL, '', '', '', 0, renewed_at
    FROM renewal r
    WHERE committed_attempt > 0 AND relayed_tokens > 0 AND relayed_bytes > 0
        AND NOT EXISTS (SELECT FROM witness w WHERE w.request_id = r.request_id);

-- A lease moves forward only; everything else of an open hold stands.
DROP TRIGGER hold_closes_once ON hold;
CREATE TRIGGER hold_closes_once BEFORE UPDATE ON hold
    FOR EACH ROW WHEN (OLD.state <> 'open' OR NEW.expires_at < OLD.expires_at)
    EXECUTE FUNCTION refuse_change();

-- What was served is not given away for nothing: a hold with evidence expires
-- only when its review has come to its end.
-- +goose StatementBegin
CREATE FUNCTION refuse_unreviewed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM evidence e WHERE e.request_id = NEW.request_id)
        AND NOT EXISTS (SELECT FROM orphan_review v WHERE v.request_id = NEW.request_id AND v.publications = 13)
    THEN
        RAISE EXCEPTION 'request % was served and is to be reviewed', NEW.request_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER hold_expires_reviewed BEFORE UPDATE ON hold
    FOR EACH ROW WHEN (NEW.state = 'expired') EXECUTE FUNCTION refuse_unreviewed();

-- On whose count a settled request rests.
ALTER TABLE usage_settlement
    ADD COLUMN witness text NOT NULL DEFAULT 'hub' CHECK (witness IN ('hub', 'gateway'));

GRANT UPDATE (expires_at) ON hold TO svc_billing;
GRANT SELECT, INSERT ON renewal, orphan_review TO svc_billing;
GRANT UPDATE (committed_attempt, hub_id, provider_id, relayed_tokens, relayed_bytes, renewed_at) ON renewal TO svc_billing;
GRANT UPDATE (publications, next_at) ON orphan_review TO svc_billing;
GRANT SELECT ON evidence TO svc_billing;
