-- Strata, their calibrations, and the challenges to honest hosts that those are made of.

-- +goose Up
CREATE TABLE stratum (
    -- SHA-256 of the five that follow, as store.StratumID makes it.
    stratum         bytea PRIMARY KEY CHECK (octet_length(stratum) = 32),
    model_id        text COLLATE "C" NOT NULL CHECK (octet_length(model_id) BETWEEN 1 AND 256),
    files           bytea NOT NULL CHECK (octet_length(files) = 32),
    class           smallint NOT NULL CHECK (class BETWEEN 0 AND 64),
    engine          text NOT NULL CHECK (octet_length(engine) <= 255),
    gpu             text NOT NULL CHECK (octet_length(gpu) <= 255),
    first_seen      timestamptz NOT NULL DEFAULT now(),
    -- When the guard against common causes last found nothing.
    checked_at      timestamptz,
    -- Since when a common cause is suspected, and why; null while none is.
    suspected_since timestamptz,
    suspicion       text CHECK (octet_length(suspicion) BETWEEN 1 AND 200),
    CONSTRAINT stratum_parts UNIQUE (model_id, files, class, engine, gpu),
    CONSTRAINT stratum_suspicion CHECK ((suspected_since IS NULL) = (suspicion IS NULL))
);
COMMENT ON TABLE stratum IS 'Hosts that are judged alike: model, files, quantization class, engine and GPU class.';
CREATE INDEX stratum_suspected ON stratum (model_id) WHERE suspected_since IS NOT NULL;

CREATE TABLE calibration_run (
    run_id     uuid PRIMARY KEY,
    stratum    bytea NOT NULL REFERENCES stratum,
    state      text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'finished', 'abandoned')),
    reason     text CHECK (octet_length(reason) BETWEEN 1 AND 200),
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT calibration_run_end CHECK ((state = 'running') = (ended_at IS NULL)),
    CONSTRAINT calibration_run_reason CHECK ((state = 'abandoned') = (reason IS NOT NULL))
);
COMMENT ON TABLE calibration_run IS 'One round of challenges to honest hosts. It goes on where it was, whichever replica has it.';
CREATE UNIQUE INDEX calibration_run_one ON calibration_run (stratum) WHERE state = 'running';
CREATE INDEX calibration_run_by_age ON calibration_run (started_at, run_id);

CREATE TABLE calibration_sample (
    run_id  uuid NOT NULL REFERENCES calibration_run,
    family  text COLLATE "C" NOT NULL CHECK (family IN ('greedy', 'sampled', 'logprobs', 'recall', 'usage', 'files')),
    -- Names the challenge within its run, so that it counts once.
    number  integer NOT NULL CHECK (number BETWEEN 1 AND 20000),
    host    text COLLATE "C" NOT NULL CHECK (octet_length(host) BETWEEN 1 AND 256),
    -- Whether it was to a host of the next cheaper class, for the family's power.
    cheaper boolean NOT NULL,
    body    bytea NOT NULL CHECK (octet_length(body) BETWEEN 1 AND 4096),
    PRIMARY KEY (run_id, family, cheaper, number)
);
COMMENT ON TABLE calibration_sample IS 'What one challenge measured. Only ever added, while its run goes on.';

CREATE TABLE calibration (
    -- SHA-256 of the body, which evidence names.
    calibration bytea PRIMARY KEY CHECK (calibration = sha256(body)),
    stratum     bytea NOT NULL REFERENCES stratum,
    family      text COLLATE "C" NOT NULL CHECK (family IN ('greedy', 'sampled', 'logprobs', 'recall', 'usage', 'files')),
    run_id      uuid NOT NULL REFERENCES calibration_run,
    -- The binary form of package calibration.
    body        bytea NOT NULL CHECK (octet_length(body) BETWEEN 4 AND 16384),
    -- Whether it reaches as far as a penalty.
    penal       boolean NOT NULL,
    made_at     timestamptz NOT NULL,
    CONSTRAINT calibration_of_run UNIQUE (run_id, family)
);
COMMENT ON TABLE calibration IS 'What honest hosts of a stratum do in a family. The last one counts. Only ever added.';
CREATE INDEX calibration_last ON calibration (stratum, family, made_at);

CREATE TRIGGER calibration_run_moves BEFORE INSERT OR UPDATE ON calibration_run
    FOR EACH ROW EXECUTE FUNCTION calibration_run_moves();
CREATE TRIGGER calibration_run_keep BEFORE DELETE ON calibration_run FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER calibration_run_keep_all BEFORE TRUNCATE ON calibration_run
    FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER calibration_sample_begins BEFORE INSERT ON calibration_sample
    FOR EACH ROW EXECUTE FUNCTION calibration_part_begins();
CREATE TRIGGER calibration_sample_keep BEFORE UPDATE OR DELETE ON calibration_sample
    FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER calibration_sample_keep_all BEFORE TRUNCATE ON calibration_sample
    FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER calibration_begins BEFORE INSERT ON calibration
    FOR EACH ROW EXECUTE FUNCTION calibration_begins();
CREATE TRIGGER calibration_keep BEFORE UPDATE OR DELETE ON calibration FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER calibration_keep_all BEFORE TRUNCATE ON calibration FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

GRANT SELECT, INSERT (stratum, model_id, files, class, engine, gpu), UPDATE (checked_at, suspected_since, suspicion)
    ON stratum TO svc_verifier;
GRANT SELECT, INSERT (run_id, stratum), UPDATE (state, reason, ended_at) ON calibration_run TO svc_verifier;
GRANT SELECT, INSERT ON calibration_sample TO svc_verifier;
GRANT SELECT, INSERT (calibration, stratum, family, run_id, body, penal) ON calibration TO svc_verifier;
