-- The queue of probes, and what organic requests look like.

-- +goose Up
CREATE TABLE probe (
    probe_id      uuid PRIMARY KEY,
    provider_id   uuid NOT NULL,
    model_id      text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL CHECK (kind IN ('greedy', 'sampled', 'logprobs', 'recall', 'replay', 'measure',
                      'check', 'embedding', 'fingerprint')),
    flow          text COLLATE "C" NOT NULL CHECK (flow IN ('hidden', 'visible')),
    purpose       text COLLATE "C" NOT NULL CHECK (purpose IN ('evidence', 'benchmark', 'calibration')),
    run_id        uuid,
    -- The shape that a hidden probe has, of cover.Shapes in their order.
    shape         smallint CHECK (shape BETWEEN 0 AND 383),
    cost_nano_usd bigint NOT NULL CHECK (cost_nano_usd >= 0),
    -- The plan, in JSON.
    plan          bytea NOT NULL CHECK (octet_length(plan) BETWEEN 2 AND 65536),
    due_at        timestamptz NOT NULL,
    state         text COLLATE "C" NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'leased', 'done', 'void')),
    -- How often it was taken.
    tries         smallint NOT NULL DEFAULT 0 CHECK (tries BETWEEN 0 AND 3),
    -- When it may be taken next; later than due_at after it was given back.
    next_at       timestamptz NOT NULL,
    replica       text COLLATE "C" CHECK (octet_length(replica) BETWEEN 1 AND 64),
    leased_until  timestamptz,
    reason        text CHECK (octet_length(reason) BETWEEN 1 AND 200),
    -- The trigger probe_begins sets it.
    created_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    FOREIGN KEY (provider_id, model_id) REFERENCES offering,
    CONSTRAINT probe_lease_whole CHECK (num_nonnulls(replica, leased_until) = CASE state WHEN 'leased' THEN 2 ELSE 0 END),
    CONSTRAINT probe_end_whole CHECK ((ended_at IS NOT NULL) = (state IN ('done', 'void'))),
    CONSTRAINT probe_shape_hidden CHECK ((shape IS NOT NULL) = (flow = 'hidden')),
    CONSTRAINT probe_run CHECK ((run_id IS NOT NULL) = (purpose = 'benchmark')),
    CONSTRAINT probe_taken CHECK (tries > 0 OR state IN ('queued', 'void')),
    CONSTRAINT probe_void_reason CHECK (state <> 'void' OR reason IS NOT NULL)
);
COMMENT ON TABLE probe IS 'What is asked of offers. Replicas take what is due under a lease; nobody takes a probe more than three times.';
CREATE INDEX probe_due ON probe (next_at, probe_id) WHERE state = 'queued';
CREATE INDEX probe_leased ON probe (leased_until) WHERE state = 'leased';
CREATE INDEX probe_by_offering ON probe (provider_id, model_id, probe_id);
CREATE INDEX probe_ended ON probe (provider_id, ended_at, probe_id) WHERE ended_at IS NOT NULL;
CREATE INDEX probe_by_run ON probe (run_id) WHERE run_id IS NOT NULL;
-- For the cover and the budget, which look back a week.
CREATE INDEX probe_by_age ON probe (due_at) INCLUDE (shape, cost_nano_usd);

-- The table of internal/store/probe.go, as pairs.
CREATE TABLE probe_transition (
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL,
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO probe_transition (from_state, to_state) VALUES
    ('queued', 'leased'), ('queued', 'void'),
    -- The answer of a replica that was late counts.
    ('queued', 'done'),
    -- A lease that expired is taken over.
    ('leased', 'leased'), ('leased', 'queued'), ('leased', 'done'), ('leased', 'void');

CREATE TRIGGER probe_begins BEFORE INSERT ON probe FOR EACH ROW EXECUTE FUNCTION probe_begins();
CREATE TRIGGER probe_moves BEFORE UPDATE ON probe FOR EACH ROW EXECUTE FUNCTION probe_moves();
CREATE TRIGGER probe_keep BEFORE DELETE ON probe FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER probe_keep_all BEFORE TRUNCATE ON probe FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

CREATE TABLE shape_hour (
    hour     timestamptz NOT NULL CHECK (date_trunc('hour', hour, 'UTC') = hour),
    shape    smallint NOT NULL CHECK (shape BETWEEN 0 AND 383),
    requests bigint NOT NULL CHECK (requests BETWEEN 1 AND 1099511627776),
    PRIMARY KEY (hour, shape)
);
COMMENT ON TABLE shape_hour IS 'How many requests had a shape in an hour, as the replica heard that heard most of the gateways. Kept for eight days.';

GRANT SELECT, INSERT (probe_id, provider_id, model_id, kind, flow, purpose, run_id, shape, cost_nano_usd, plan, due_at),
    UPDATE (state, tries, next_at, replica, leased_until, reason, ended_at) ON probe TO svc_verifier;
GRANT SELECT ON probe_transition TO svc_verifier;
GRANT SELECT, INSERT, UPDATE (requests), DELETE ON shape_hour TO svc_verifier;
