-- Which models providers offer, who the providers are, and which hosts serve as references.

-- +goose Up
CREATE TABLE provider (
    provider_id uuid PRIMARY KEY,
    -- How many of its models were ever seen. The trigger offering_begins counts them.
    models      integer NOT NULL DEFAULT 0 CHECK (models >= 0),
    -- Grows with every verdict, for words to the hub.
    revision    bigint NOT NULL DEFAULT 1 CHECK (revision > 0),
    CONSTRAINT provider_models_bound CHECK (models <= 1024)
);
COMMENT ON TABLE provider IS 'What is counted per provider. Its row is locked first by whatever moves one of its standings.';

CREATE TRIGGER provider_moves BEFORE UPDATE ON provider FOR EACH ROW EXECUTE FUNCTION provider_moves();
CREATE TRIGGER provider_keep BEFORE DELETE ON provider FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER provider_keep_all BEFORE TRUNCATE ON provider FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

CREATE TABLE offering (
    provider_id   uuid NOT NULL REFERENCES provider,
    model_id      text COLLATE "C" NOT NULL CHECK (octet_length(model_id) BETWEEN 1 AND 256),
    -- The provider's first model has rank 1. Ranks are never given again, because the bound
    -- of false penalties per provider rests on them.
    rank          integer NOT NULL CHECK (rank > 0),
    quantization  text NOT NULL CHECK (octet_length(quantization) <= 64),
    engine        text NOT NULL CHECK (octet_length(engine) <= 64),
    gpu           text NOT NULL CHECK (octet_length(gpu) <= 128),
    file_revision text NOT NULL CHECK (octet_length(file_revision) <= 256),
    -- The triggers set the times by the database's clock.
    first_seen    timestamptz NOT NULL,
    seen_at       timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    PRIMARY KEY (provider_id, model_id),
    CONSTRAINT offering_rank UNIQUE (provider_id, rank)
);
COMMENT ON TABLE offering IS 'A model of a provider as it was last stated. A row is never removed.';
COMMENT ON COLUMN offering.changed_at IS 'When engine, GPU or files last became others.';
CREATE INDEX offering_seen ON offering (seen_at);
CREATE TRIGGER offering_begins BEFORE INSERT ON offering FOR EACH ROW EXECUTE FUNCTION offering_begins();
CREATE TRIGGER offering_moves BEFORE UPDATE ON offering FOR EACH ROW EXECUTE FUNCTION offering_moves();
CREATE TRIGGER offering_keep BEFORE DELETE ON offering FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER offering_keep_all BEFORE TRUNCATE ON offering FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

CREATE TABLE identity (
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('wallet', 'payout', 'user', 'receipt_key')),
    digest      bytea NOT NULL CHECK (octet_length(digest) = 32),
    provider_id uuid NOT NULL,
    first_seen  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, digest, provider_id)
);
COMMENT ON TABLE identity IS 'Digests by which accounts of one person are known: a new account inherits what a removed one had. Only ever added.';
CREATE INDEX identity_by_provider ON identity (provider_id);
CREATE TRIGGER identity_bound AFTER INSERT ON identity FOR EACH ROW EXECUTE FUNCTION bound_identities();
CREATE TRIGGER identity_keep BEFORE UPDATE OR DELETE ON identity FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER identity_keep_all BEFORE TRUNCATE ON identity FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

CREATE TABLE reference (
    model_id      text COLLATE "C" NOT NULL CHECK (octet_length(model_id) BETWEEN 1 AND 256),
    -- The reference's provider and node.
    host          text COLLATE "C" NOT NULL CHECK (octet_length(host) BETWEEN 1 AND 256),
    provider_id   uuid NOT NULL,
    class         smallint NOT NULL CHECK (class BETWEEN 0 AND 64),
    engine        text NOT NULL CHECK (octet_length(engine) <= 64),
    gpu           text NOT NULL CHECK (octet_length(gpu) <= 128),
    file_revision text NOT NULL CHECK (octet_length(file_revision) <= 256),
    first_seen    timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model_id, host)
);
COMMENT ON TABLE reference IS 'The references that were seen, by model and host.';
CREATE INDEX reference_seen ON reference (seen_at);

GRANT SELECT, INSERT (provider_id), UPDATE (models, revision) ON provider TO svc_verifier;
GRANT SELECT, INSERT (provider_id, model_id, quantization, engine, gpu, file_revision),
    UPDATE (quantization, engine, gpu, file_revision, seen_at) ON offering TO svc_verifier;
GRANT SELECT, INSERT (kind, digest, provider_id) ON identity TO svc_verifier;
GRANT SELECT, INSERT (model_id, host, provider_id, class, engine, gpu, file_revision),
    UPDATE (provider_id, class, engine, gpu, file_revision, seen_at) ON reference TO svc_verifier;
