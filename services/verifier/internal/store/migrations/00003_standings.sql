-- Where each offer stands, what happened to it, and the sealed evidence of that.

-- +goose Up
CREATE TABLE event (
    provider_id uuid NOT NULL,
    model_id    text COLLATE "C" NOT NULL,
    -- Counts the events of an offer from 1 without a gap.
    number      bigint NOT NULL CHECK (number > 0),
    -- What happened happens once: a second delivery has the same key.
    event_key   text COLLATE "C" NOT NULL CHECK (octet_length(event_key) BETWEEN 1 AND 256),
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('judged', 'paired', 'ticked', 'run', 'penalty', 'voided', 'asked',
                    'operator')),
    probe_id    uuid REFERENCES probe,
    -- The clock that the rules were given. It never goes back within an offer.
    at          timestamptz NOT NULL,
    -- The evidence M and the level after the event.
    m           double precision NOT NULL CHECK (m >= 0 AND m < 'Infinity'),
    level       text COLLATE "C" NOT NULL CHECK (level IN ('normal', 'watch', 'notice', 'confirm', 'penalty')),
    -- What the first delivery brought, in JSON, for later ones.
    outcome     bytea NOT NULL CHECK (octet_length(outcome) BETWEEN 2 AND 65536),
    PRIMARY KEY (provider_id, model_id, number),
    FOREIGN KEY (provider_id, model_id) REFERENCES offering,
    CONSTRAINT event_once UNIQUE (provider_id, model_id, event_key),
    CONSTRAINT event_judged_once UNIQUE (probe_id),
    CONSTRAINT event_of_probe CHECK ((probe_id IS NOT NULL) = (kind = 'judged'))
);
COMMENT ON TABLE event IS 'What moved an offer''s standing, in order. Only ever added.';
CREATE INDEX event_by_age ON event (at);
-- For the beginning of a verdict's evidence.
CREATE INDEX event_without_evidence ON event (provider_id, model_id, number) WHERE m = 0;

-- The table of internal/ladder/ladder.go, as pairs.
CREATE TABLE level_transition (
    from_level text COLLATE "C" NOT NULL,
    to_level   text COLLATE "C" NOT NULL CHECK (to_level <> from_level),
    PRIMARY KEY (from_level, to_level)
);
INSERT INTO level_transition (from_level, to_level) VALUES
    ('normal', 'watch'), ('watch', 'normal'), ('watch', 'notice'), ('notice', 'watch'), ('notice', 'confirm'),
    ('confirm', 'notice'), ('confirm', 'penalty'), ('penalty', 'notice'), ('penalty', 'normal');

CREATE TABLE observation (
    probe_id    uuid NOT NULL REFERENCES probe,
    family      text COLLATE "C" NOT NULL CHECK (family IN ('greedy', 'sampled', 'logprobs', 'recall', 'usage', 'files',
                    'visible')),
    provider_id uuid NOT NULL,
    model_id    text COLLATE "C" NOT NULL,
    number      bigint NOT NULL,
    exceeded    boolean NOT NULL,
    -- What judged it; null where nothing calibrated did.
    calibration bytea CHECK (octet_length(calibration) = 32),
    stratum     bytea NOT NULL CHECK (octet_length(stratum) = 32),
    at          timestamptz NOT NULL,
    PRIMARY KEY (probe_id, family),
    FOREIGN KEY (provider_id, model_id, number) REFERENCES event
);
COMMENT ON TABLE observation IS 'What probes said for each family: at most one observation of a family by a probe. Only ever added.';
CREATE INDEX observation_by_offering ON observation (provider_id, model_id, number);
CREATE INDEX observation_by_stratum ON observation (stratum, at);

CREATE TABLE standing (
    provider_id  uuid NOT NULL,
    model_id     text COLLATE "C" NOT NULL,
    -- That of the last event.
    number       bigint NOT NULL CHECK (number > 0),
    -- The canonical binary form of package standing. What follows is read from it.
    state        bytea NOT NULL CHECK (octet_length(state) BETWEEN 1 AND 65536),
    level        text COLLATE "C" NOT NULL CHECK (level IN ('normal', 'watch', 'notice', 'confirm', 'penalty')),
    benchmark    text COLLATE "C" NOT NULL CHECK (benchmark IN ('unproven', 'proven', 'warned', 'fined', 'removed', 'lapsed')),
    m            double precision NOT NULL CHECK (m >= 0 AND m < 'Infinity'),
    -- The lane that the ladder of misrepresentation keeps.
    misrep_lane  text COLLATE "C" NOT NULL CHECK (misrep_lane IN ('main', 'probe', 'shut')),
    open_penalty uuid,
    unclean_at   timestamptz,
    -- What trust.v1 says, and its revision, which grows with every change of the five.
    trust        double precision NOT NULL CHECK (trust > 0 AND trust <= 1),
    lane         text COLLATE "C" NOT NULL CHECK (lane IN ('main', 'probe', 'shut')),
    cap_tokens   bigint NOT NULL CHECK (cap_tokens >= 0),
    grace_until  timestamptz,
    -- Since when a benchmark counts; null while none does.
    passed_at    timestamptz,
    revision     bigint NOT NULL CHECK (revision > 0),
    moved_at     timestamptz NOT NULL,
    PRIMARY KEY (provider_id, model_id),
    FOREIGN KEY (provider_id, model_id) REFERENCES offering
);
COMMENT ON TABLE standing IS 'Process, ladder and trust of an offer: one row, moved by one event at a time.';
CREATE INDEX standing_by_age ON standing (moved_at);
CREATE INDEX standing_not_normal ON standing (level, moved_at) WHERE level <> 'normal';

CREATE TABLE evidence (
    piece_id    uuid PRIMARY KEY,
    provider_id uuid NOT NULL,
    model_id    text COLLATE "C" NOT NULL,
    number      bigint NOT NULL,
    -- The triggers set day and time by the database's clock.
    day         date NOT NULL,
    recorded_at timestamptz NOT NULL,
    plain_bytes integer NOT NULL CHECK (plain_bytes BETWEEN 0 AND 33554432),
    leaf        bytea NOT NULL CHECK (octet_length(leaf) = 32),
    link        bytea NOT NULL CHECK (octet_length(link) = 32),
    -- Null once its time is over. Leaf and link stay.
    sealed      bytea CHECK (octet_length(sealed) BETWEEN 29 AND 33570816),
    cleared_at  timestamptz,
    CONSTRAINT evidence_number UNIQUE (provider_id, model_id, number),
    FOREIGN KEY (provider_id, model_id, number) REFERENCES event,
    CONSTRAINT evidence_cleared CHECK ((sealed IS NULL) = (cleared_at IS NOT NULL))
);
-- Sealed bytes are compressed already.
ALTER TABLE evidence ALTER COLUMN sealed SET STORAGE EXTERNAL;
COMMENT ON TABLE evidence IS 'One sealed piece for each event. Each offer has a chain of links; each day has a root over all pieces.';
CREATE INDEX evidence_by_day ON evidence (day, provider_id, model_id, number);
CREATE INDEX evidence_to_clear ON evidence (recorded_at, piece_id) WHERE sealed IS NOT NULL;

CREATE TABLE seal (
    day       date PRIMARY KEY,
    pieces    bigint NOT NULL CHECK (pieces >= 0),
    root      bytea NOT NULL CHECK (octet_length(root) = 32),
    link      bytea NOT NULL CHECK (octet_length(link) = 32),
    sealed_at timestamptz NOT NULL
);
COMMENT ON TABLE seal IS 'The Merkle root of the pieces of a UTC day, in the order of provider, model and number, and its link to the seal before it. Only ever added.';

CREATE TRIGGER event_begins BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION event_begins();
CREATE TRIGGER event_keep BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER event_keep_all BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER observation_keep BEFORE UPDATE OR DELETE ON observation FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER observation_keep_all BEFORE TRUNCATE ON observation FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER standing_moves BEFORE INSERT OR UPDATE ON standing FOR EACH ROW EXECUTE FUNCTION standing_moves();
CREATE TRIGGER standing_keep BEFORE DELETE ON standing FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER standing_keep_all BEFORE TRUNCATE ON standing FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER evidence_begins BEFORE INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION evidence_begins();
CREATE TRIGGER evidence_clears BEFORE UPDATE ON evidence FOR EACH ROW EXECUTE FUNCTION evidence_clears();
CREATE TRIGGER evidence_keep BEFORE DELETE ON evidence FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER evidence_keep_all BEFORE TRUNCATE ON evidence FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER seal_begins BEFORE INSERT ON seal FOR EACH ROW EXECUTE FUNCTION seal_begins();
CREATE TRIGGER seal_keep BEFORE UPDATE OR DELETE ON seal FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER seal_keep_all BEFORE TRUNCATE ON seal FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
-- At the end of a transaction a standing has its event, and an event its piece of evidence
-- and the standing that it led to.
CREATE CONSTRAINT TRIGGER standing_entered AFTER INSERT OR UPDATE ON standing
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION standing_entered();
CREATE CONSTRAINT TRIGGER event_whole AFTER INSERT ON event
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION event_whole();

GRANT SELECT, INSERT ON event, observation TO svc_verifier;
GRANT SELECT ON level_transition TO svc_verifier;
GRANT SELECT, INSERT (provider_id, model_id, number, state, level, benchmark, m, misrep_lane, open_penalty, unclean_at,
        trust, lane, cap_tokens, grace_until, passed_at, moved_at),
    UPDATE (number, state, level, benchmark, m, misrep_lane, open_penalty, unclean_at, trust, lane, cap_tokens,
        grace_until, passed_at, moved_at) ON standing TO svc_verifier;
GRANT SELECT, INSERT (piece_id, provider_id, model_id, number, plain_bytes, leaf, link, sealed),
    UPDATE (sealed, cleared_at) ON evidence TO svc_verifier;
GRANT SELECT, INSERT (day, pieces, root, link) ON seal TO svc_verifier;
