-- Penalties that the verifier proposes, with their history, and what the hub is told of
-- collateral.

-- +goose Up
CREATE TABLE penalty (
    penalty_id         uuid PRIMARY KEY,
    provider_id        uuid NOT NULL,
    model_id           text NOT NULL CHECK (octet_length(model_id) BETWEEN 1 AND 256),
    kind               text COLLATE "C" NOT NULL CHECK (kind IN ('misrepresentation', 'benchmark')),
    share_basis_points integer NOT NULL CHECK (share_basis_points BETWEEN 1 AND 3000),
    removes            boolean NOT NULL,
    summary            text NOT NULL CHECK (char_length(summary) BETWEEN 1 AND 500),
    evidence_hash      bytea NOT NULL CHECK (octet_length(evidence_hash) = 32),
    state              text COLLATE "C" NOT NULL DEFAULT 'proposed'
        CHECK (state IN ('proposed', 'appealed', 'upheld', 'reversed', 'executed')),
    revision           bigint NOT NULL DEFAULT 1 CHECK (revision > 0),
    -- The trigger penalty_begins sets both.
    opened_at          timestamptz NOT NULL,
    appeal_until       timestamptz NOT NULL,
    appeal_text        text CHECK (char_length(appeal_text) BETWEEN 1 AND 4000),
    appealed_at        timestamptz,
    resolution         text CHECK (char_length(resolution) BETWEEN 1 AND 500),
    resolved_at        timestamptz,
    executed_at        timestamptz,
    CONSTRAINT penalty_window CHECK (appeal_until - opened_at = interval '48 hours'),
    CONSTRAINT penalty_appeal_whole CHECK ((appeal_text IS NULL) = (appealed_at IS NULL)),
    CONSTRAINT penalty_resolution_whole CHECK ((resolution IS NULL) = (resolved_at IS NULL)),
    CONSTRAINT penalty_appeal_in_time CHECK (appealed_at < appeal_until),
    -- Without an appeal nothing is executed before the time to appeal is over.
    CONSTRAINT penalty_executed_in_time CHECK (appealed_at IS NOT NULL OR executed_at >= appeal_until),
    CONSTRAINT penalty_state_facts CHECK (CASE state
        WHEN 'proposed' THEN num_nonnulls(appealed_at, resolved_at, executed_at) = 0
        WHEN 'appealed' THEN appealed_at IS NOT NULL AND num_nonnulls(resolved_at, executed_at) = 0
        WHEN 'upheld' THEN num_nulls(appealed_at, resolved_at) = 0 AND executed_at IS NULL
        WHEN 'reversed' THEN resolved_at IS NOT NULL AND executed_at IS NULL
        ELSE executed_at IS NOT NULL AND (appealed_at IS NULL) = (resolved_at IS NULL) END)
);
COMMENT ON TABLE penalty IS 'What the verifier proposes to take from a provider''s collateral, as a share. It holds no amount and moves no money: amounts follow where collateral is kept.';
COMMENT ON COLUMN penalty.executed_at IS 'Since when the share is due.';
CREATE INDEX penalty_by_provider ON penalty (provider_id, opened_at, penalty_id);
CREATE INDEX penalty_by_age ON penalty (opened_at, penalty_id);
CREATE INDEX penalty_by_state ON penalty (state, opened_at, penalty_id);
CREATE INDEX penalty_to_expire ON penalty (appeal_until) WHERE state = 'proposed';
CREATE INDEX penalty_open ON penalty (state) WHERE state IN ('proposed', 'appealed', 'upheld');

-- The table of internal/penalty/state.go, as pairs.
CREATE TABLE penalty_transition (
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL CHECK (to_state <> from_state),
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO penalty_transition (from_state, to_state) VALUES
    ('proposed', 'appealed'), ('proposed', 'reversed'), ('proposed', 'executed'),
    ('appealed', 'upheld'), ('appealed', 'reversed'),
    ('upheld', 'reversed'), ('upheld', 'executed');

CREATE TABLE penalty_change (
    penalty_id uuid NOT NULL REFERENCES penalty,
    revision   bigint NOT NULL CHECK (revision > 0),
    -- Empty for the opening.
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL,
    cause      text COLLATE "C" NOT NULL CHECK (cause IN ('open', 'appeal', 'expire', 'uphold', 'reverse', 'execute')),
    actor      text COLLATE "C" NOT NULL
        CHECK (actor IN ('verifier', 'provider', 'platform') OR actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason     text NOT NULL CHECK (char_length(reason) <= 500),
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (penalty_id, revision),
    CONSTRAINT penalty_change_opening CHECK ((revision = 1) = (cause = 'open') AND (revision = 1) = (from_state = '')),
    CONSTRAINT penalty_change_actor CHECK (CASE cause
        WHEN 'open' THEN actor = 'verifier'
        WHEN 'appeal' THEN actor = 'provider'
        WHEN 'expire' THEN actor = 'platform'
        WHEN 'execute' THEN actor = 'platform'
        ELSE actor ~ '^operator' AND reason <> '' END)
);
COMMENT ON TABLE penalty_change IS 'Who moved a penalty, when and why; one row for each revision. Only ever added.';

CREATE TRIGGER penalty_begins BEFORE INSERT ON penalty FOR EACH ROW EXECUTE FUNCTION penalty_begins();
CREATE TRIGGER penalty_moves BEFORE UPDATE ON penalty FOR EACH ROW EXECUTE FUNCTION penalty_moves();
-- At the end of a transaction the history has the revision that the penalty has.
CREATE CONSTRAINT TRIGGER penalty_entered AFTER INSERT OR UPDATE ON penalty
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION penalty_entered();
CREATE TRIGGER penalty_keep BEFORE DELETE ON penalty FOR EACH ROW EXECUTE FUNCTION penalty_keep();
CREATE TRIGGER penalty_keep_all BEFORE TRUNCATE ON penalty FOR EACH STATEMENT EXECUTE FUNCTION penalty_keep();
CREATE TRIGGER penalty_change_keep BEFORE UPDATE OR DELETE ON penalty_change
    FOR EACH ROW EXECUTE FUNCTION penalty_keep();
CREATE TRIGGER penalty_change_keep_all BEFORE TRUNCATE ON penalty_change
    FOR EACH STATEMENT EXECUTE FUNCTION penalty_keep();

GRANT SELECT, INSERT (penalty_id, provider_id, model_id, kind, share_basis_points, removes, summary, evidence_hash),
    UPDATE (state, revision, appeal_text, appealed_at, resolution, resolved_at, executed_at) ON penalty TO svc_settlement;
GRANT SELECT ON penalty_transition TO svc_settlement;
GRANT SELECT, INSERT ON penalty_change TO svc_settlement;

CREATE TABLE provider_collateral (
    provider_id uuid PRIMARY KEY,
    confirmed   boolean NOT NULL,
    revision    bigint NOT NULL DEFAULT 1 CHECK (revision > 0),
    -- When the hub took this revision; null until then.
    told_at     timestamptz,
    tried_at    timestamptz
);
COMMENT ON TABLE provider_collateral IS 'What the hub is told of a provider''s collateral, and whether the hub took it.';
CREATE INDEX provider_collateral_untold ON provider_collateral (tried_at NULLS FIRST, provider_id) WHERE told_at IS NULL;
CREATE TRIGGER provider_collateral_moves BEFORE UPDATE ON provider_collateral
    FOR EACH ROW EXECUTE FUNCTION provider_collateral_moves();

GRANT SELECT, INSERT (provider_id, confirmed), UPDATE (confirmed, revision, told_at, tried_at)
    ON provider_collateral TO svc_settlement;
