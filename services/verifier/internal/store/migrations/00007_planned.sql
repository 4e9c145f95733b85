-- What was planned for offers before, on which the next hour's probes depend.

-- +goose Up
CREATE TABLE planned (
    provider_id uuid NOT NULL,
    model_id    text COLLATE "C" NOT NULL,
    -- The hour that was planned last, in hours since 1970.
    hour        bigint NOT NULL CHECK (hour > 0),
    -- The form of package plan, in JSON.
    past        bytea NOT NULL CHECK (octet_length(past) BETWEEN 2 AND 8192),
    PRIMARY KEY (provider_id, model_id),
    FOREIGN KEY (provider_id, model_id) REFERENCES offering
);
COMMENT ON TABLE planned IS 'What was planned for an offer. Of two replicas that plan an hour, one moves it.';
CREATE TRIGGER planned_moves BEFORE UPDATE ON planned FOR EACH ROW EXECUTE FUNCTION planned_moves();
CREATE TRIGGER planned_keep BEFORE DELETE ON planned FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER planned_keep_all BEFORE TRUNCATE ON planned FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

GRANT SELECT, INSERT, UPDATE (hour, past) ON planned TO svc_verifier;
