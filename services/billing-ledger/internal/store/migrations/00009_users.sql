-- Who may sign in: users, what they have signed in with, and the attempts to.

-- +goose Up
CREATE TABLE app_user (
    id            uuid PRIMARY KEY,
    -- In lower case, ASCII; see package user.
    email         text COLLATE "C" NOT NULL UNIQUE
        CHECK (octet_length(email) <= 254 AND email ~ '^[!-?A-~]+@[a-z0-9.-]+$' AND email = lower(email)),
    display_name  text NOT NULL CHECK (char_length(display_name) <= 64 AND display_name !~ '[[:cntrl:]]'),
    -- PHC string of argon2id: parameters, salt and hash.
    password_hash text COLLATE "C" NOT NULL
        CHECK (octet_length(password_hash) <= 256 AND password_hash LIKE '$argon2id$v=19$m=%'),
    account_id    uuid NOT NULL UNIQUE REFERENCES account,
    -- Of the provider account that the user owns, which is the hubs' to keep.
    provider_id   uuid UNIQUE,
    created_at    timestamptz NOT NULL DEFAULT now()
);

-- Who owns a provider account owns no other, ever.
CREATE TRIGGER app_user_provider_stands BEFORE UPDATE ON app_user
    FOR EACH ROW WHEN (OLD.provider_id IS NOT NULL) EXECUTE FUNCTION refuse_change();

-- What a user signed in with, by the digest of its text. The row of the user is
-- the lock under which they come and go.
CREATE TABLE user_session (
    token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
    user_id      uuid NOT NULL REFERENCES app_user,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    CONSTRAINT user_session_is_short CHECK (expires_at > created_at AND expires_at <= created_at + interval '15 minutes')
);

CREATE INDEX user_session_of_user ON user_session (user_id, expires_at);
CREATE INDEX user_session_expires ON user_session (expires_at);

CREATE TRIGGER user_session_bound BEFORE INSERT ON user_session
    FOR EACH ROW EXECUTE FUNCTION bound_sessions();

-- The right to change a column is what locking rows takes; nothing changes them.
CREATE TRIGGER user_session_stands BEFORE UPDATE ON user_session
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Attempts to sign in with an e-mail, whether there is a user of it or not, by the
-- generic cell rate algorithm: those that failed or are under way, by the SHA-256
-- of the e-mail and the mark of the network that they come from; under the zero
-- mark those of all strangers together. full_at is when all that may come at once
-- is free again. A row whose full_at is past says nothing and is forgotten.
-- An attempt locks the row of its network before that of strangers.
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

CREATE TRIGGER known_network_bound BEFORE INSERT ON known_network
    FOR EACH ROW EXECUTE FUNCTION bound_networks();

-- What sign_in_count has replaced, for replicas that count in it: attempts under way
-- and those that failed, by the SHA-256 of the e-mail, each with that of the network
-- that it came from.
CREATE TABLE sign_in_attempt (
    email_sha256 bytea PRIMARY KEY CHECK (octet_length(email_sha256) = 32),
    made_at      timestamptz[] NOT NULL CHECK (cardinality(made_at) <= 100),
    networks     bytea[] NOT NULL,
    expires_at   timestamptz NOT NULL,
    CONSTRAINT sign_in_attempt_pairs CHECK (cardinality(networks) = cardinality(made_at))
);

CREATE INDEX sign_in_attempt_expires ON sign_in_attempt (expires_at);

GRANT SELECT, INSERT, UPDATE (provider_id) ON app_user TO svc_billing;
GRANT SELECT, DELETE, INSERT (token_sha256, user_id, expires_at), UPDATE (expires_at) ON user_session TO svc_billing;
GRANT SELECT, INSERT, DELETE, UPDATE (full_at) ON sign_in_count TO svc_billing;
GRANT SELECT, INSERT, DELETE, UPDATE (used_at) ON known_network TO svc_billing;
GRANT SELECT, INSERT, DELETE, UPDATE (made_at, networks, expires_at) ON sign_in_attempt TO svc_billing;
