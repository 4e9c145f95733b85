-- +goose Up
-- Attempts to sign in with an e-mail, whether there is a user of it or not, by the
-- generic cell rate algorithm: those that failed or are under way, by the SHA-256
-- of the e-mail and the mark of the network that they come from; under the zero
-- mark those of all strangers together. full_at is when all that may come at once
-- is free again. A row whose full_at is past says nothing and is forgotten.
-- An attempt locks the row of its network before that of strangers.
--
-- sign_in_attempt, which this replaces, stays while replicas run that count in it.
CREATE TABLE sign_in_count (
    email_sha256 bytea NOT NULL CHECK (octet_length(email_sha256) = 32),
    network      bytea NOT NULL CHECK (octet_length(network) = 32),
    full_at      timestamptz NOT NULL,
    PRIMARY KEY (email_sha256, network)
) WITH (fillfactor = 70);

CREATE INDEX sign_in_count_full ON sign_in_count (full_at);

-- The networks that users have signed in from of late, by their marks. The row of
-- the user is the lock under which they come and go.
CREATE TABLE known_network (
    user_id uuid NOT NULL REFERENCES app_user,
    network bytea NOT NULL CHECK (octet_length(network) = 32),
    used_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, network)
);

CREATE INDEX known_network_used ON known_network (used_at);

-- +goose StatementBegin
CREATE FUNCTION bound_networks() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM known_network WHERE user_id = NEW.user_id) >= 8 THEN
        RAISE EXCEPTION 'a user has at most 8 known networks' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER known_network_bound BEFORE INSERT ON known_network
    FOR EACH ROW EXECUTE FUNCTION bound_networks();

GRANT SELECT, INSERT, DELETE, UPDATE (full_at) ON sign_in_count TO svc_billing;
GRANT SELECT, INSERT, DELETE, UPDATE (used_at) ON known_network TO svc_billing;
