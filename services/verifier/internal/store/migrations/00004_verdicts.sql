-- Verdicts, what follows from them elsewhere, and runs of benchmarks.

-- +goose Up
CREATE TABLE verdict (
    verdict_id         uuid PRIMARY KEY,
    provider_id        uuid NOT NULL,
    model_id           text COLLATE "C" NOT NULL,
    -- The event that brought it, and the first event whose evidence it rests on.
    number             bigint NOT NULL,
    first_number       bigint NOT NULL CHECK (first_number BETWEEN 1 AND number),
    kind               text COLLATE "C" NOT NULL CHECK (kind IN ('misrepresentation', 'benchmark')),
    -- The trigger of the ladder, the result of a benchmark, or an operator's word.
    cause              text COLLATE "C" NOT NULL CHECK (cause ~ '^[a-z_]{1,32}$'),
    at                 timestamptz NOT NULL,
    -- The verdict of the penalty that this one is about.
    of_verdict         uuid REFERENCES verdict,
    share_basis_points integer NOT NULL CHECK (share_basis_points BETWEEN 0 AND 3000),
    removes            boolean NOT NULL,
    reinstates         boolean NOT NULL,
    -- What it adds to the provider's penalties.
    counts             smallint NOT NULL CHECK (counts BETWEEN -1 AND 1),
    needs_operator     boolean NOT NULL,
    summary            text NOT NULL CHECK (char_length(summary) BETWEEN 1 AND 500),
    -- The whole verdict, in JSON.
    body               bytea NOT NULL CHECK (octet_length(body) BETWEEN 2 AND 65536),
    FOREIGN KEY (provider_id, model_id, number) REFERENCES event,
    CONSTRAINT verdict_once UNIQUE (provider_id, model_id, number, kind, cause),
    -- Who needs an operator takes nothing before they agree.
    CONSTRAINT verdict_waits CHECK (NOT needs_operator OR share_basis_points = 0 AND NOT removes AND counts = 0),
    CONSTRAINT verdict_removal_costs CHECK (NOT removes OR share_basis_points > 0),
    CONSTRAINT verdict_reversal CHECK (counts >= 0 OR of_verdict IS NOT NULL AND share_basis_points = 0)
);
COMMENT ON TABLE verdict IS 'What was decided about an offer. Only ever added.';
CREATE INDEX verdict_by_provider ON verdict (provider_id, verdict_id);
CREATE INDEX verdict_by_offering ON verdict (provider_id, model_id, number);
CREATE INDEX verdict_of ON verdict (of_verdict) WHERE of_verdict IS NOT NULL;
-- A penalty is reversed, or refused, once.
CREATE UNIQUE INDEX verdict_reversed_once ON verdict (of_verdict) WHERE counts < 0;
-- A penalty that waits for an operator costs once.
CREATE UNIQUE INDEX verdict_approved_once ON verdict (of_verdict) WHERE share_basis_points > 0;

CREATE TABLE penalty_end (
    verdict_id uuid PRIMARY KEY REFERENCES verdict,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('executed', 'reversed', 'refused')),
    -- The trigger sets it by the database's clock.
    ended_at   timestamptz NOT NULL
);
COMMENT ON TABLE penalty_end IS 'When the penalty of a verdict came to its end; its evidence is kept for 180 days longer. Only ever added.';

CREATE TABLE effect (
    effect_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verdict_id   uuid NOT NULL REFERENCES verdict,
    provider_id  uuid NOT NULL,
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('open_penalty', 'expel', 'reinstate', 'report_benchmark')),
    -- The id that settlement and hub know the penalty by.
    subject      uuid NOT NULL,
    revision     bigint NOT NULL CHECK (revision > 0),
    state        text COLLATE "C" NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'refused')),
    tries        integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_at      timestamptz NOT NULL,
    replica      text COLLATE "C" CHECK (octet_length(replica) BETWEEN 1 AND 64),
    leased_until timestamptz,
    problem      text CHECK (octet_length(problem) BETWEEN 1 AND 200),
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT effect_once UNIQUE (verdict_id, kind),
    CONSTRAINT effect_lease_whole CHECK ((replica IS NULL) = (leased_until IS NULL)),
    CONSTRAINT effect_end_whole CHECK ((ended_at IS NOT NULL) = (state <> 'pending')
        AND (state = 'pending' OR tries > 0 AND replica IS NULL)),
    CONSTRAINT effect_refused CHECK (state <> 'refused' OR problem IS NOT NULL)
);
COMMENT ON TABLE effect IS 'What other services are told of a verdict. Those of a provider go in order, one at a time.';
CREATE INDEX effect_pending ON effect (provider_id, effect_id) WHERE state = 'pending';
CREATE INDEX effect_refused_ones ON effect (effect_id) WHERE state = 'refused';

CREATE TABLE benchmark_run (
    run_id      uuid PRIMARY KEY,
    provider_id uuid NOT NULL,
    model_id    text COLLATE "C" NOT NULL,
    basis       text COLLATE "C" NOT NULL CHECK (basis IN ('first', 'asked', 'renewal', 'traffic', 'again')),
    state       text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'passed', 'failed', 'void')),
    -- Grows with every step, so that of two replicas one takes it.
    revision    bigint NOT NULL DEFAULT 1 CHECK (revision > 0),
    -- The canonical form of package bench.
    body        bytea NOT NULL CHECK (octet_length(body) <= 4194304),
    -- When the run wants to go on.
    next_at     timestamptz NOT NULL,
    -- The findings of its end, in JSON.
    findings    bytea CHECK (octet_length(findings) BETWEEN 2 AND 16384),
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    FOREIGN KEY (provider_id, model_id) REFERENCES offering,
    CONSTRAINT benchmark_run_end CHECK ((state = 'running') = (ended_at IS NULL) AND (ended_at IS NULL) = (findings IS NULL))
);
COMMENT ON TABLE benchmark_run IS 'Runs of benchmarks. One of an offer runs at a time; what has ended stays.';
CREATE UNIQUE INDEX benchmark_run_one ON benchmark_run (provider_id, model_id) WHERE state = 'running';
CREATE INDEX benchmark_run_due ON benchmark_run (next_at) WHERE state = 'running';
CREATE INDEX benchmark_run_by_provider ON benchmark_run (provider_id, run_id);

CREATE TRIGGER verdict_begins BEFORE INSERT ON verdict FOR EACH ROW EXECUTE FUNCTION verdict_begins();
CREATE TRIGGER verdict_keep BEFORE UPDATE OR DELETE ON verdict FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER verdict_keep_all BEFORE TRUNCATE ON verdict FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE CONSTRAINT TRIGGER verdict_effects AFTER INSERT ON verdict
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION verdict_effects();
CREATE TRIGGER penalty_end_begins BEFORE INSERT ON penalty_end FOR EACH ROW EXECUTE FUNCTION penalty_end_begins();
CREATE TRIGGER penalty_end_keep BEFORE UPDATE OR DELETE ON penalty_end FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER penalty_end_keep_all BEFORE TRUNCATE ON penalty_end FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER effect_begins BEFORE INSERT ON effect FOR EACH ROW EXECUTE FUNCTION effect_begins();
CREATE TRIGGER effect_moves BEFORE UPDATE ON effect FOR EACH ROW EXECUTE FUNCTION effect_moves();
CREATE TRIGGER effect_keep BEFORE DELETE ON effect FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER effect_keep_all BEFORE TRUNCATE ON effect FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER benchmark_run_moves BEFORE INSERT OR UPDATE ON benchmark_run
    FOR EACH ROW EXECUTE FUNCTION benchmark_run_moves();
CREATE TRIGGER benchmark_run_keep BEFORE DELETE ON benchmark_run FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER benchmark_run_keep_all BEFORE TRUNCATE ON benchmark_run FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

GRANT SELECT, INSERT (verdict_id, provider_id, model_id, number, kind, cause, at, of_verdict, share_basis_points, removes,
    reinstates, counts, needs_operator, summary, body) ON verdict TO svc_verifier;
GRANT SELECT, INSERT (verdict_id, state) ON penalty_end TO svc_verifier;
GRANT SELECT, INSERT (verdict_id, kind, subject, revision),
    UPDATE (state, tries, next_at, replica, leased_until, problem, ended_at) ON effect TO svc_verifier;
GRANT SELECT, INSERT (run_id, provider_id, model_id, basis, body, next_at),
    UPDATE (state, revision, body, next_at, findings, ended_at) ON benchmark_run TO svc_verifier;
