-- User sessions that are refreshed, and letters to users.

-- +goose Up
ALTER TABLE app_user ADD COLUMN email_confirmed_at timestamptz;
COMMENT ON COLUMN app_user.email_confirmed_at IS 'When the user has shown that it reads the e-mail.';

-- Whoever owns a provider account owns no other, ever. The rest of the row may change.
DROP TRIGGER app_user_provider_stands ON app_user;
CREATE TRIGGER app_user_provider_stands BEFORE UPDATE ON app_user FOR EACH ROW
    WHEN (OLD.provider_id IS NOT NULL AND OLD.provider_id IS DISTINCT FROM NEW.provider_id)
    EXECUTE FUNCTION refuse_change();

CREATE TABLE session_family (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES app_user,
    -- The network of the last use, rounded, as its user is shown it.
    network    text NOT NULL CHECK (octet_length(network) <= 64),
    -- Whether it has refresh tokens.
    remembered boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    cause      text CHECK (cause IN ('logout', 'everywhere', 'ended', 'password', 'reset', 'reuse')),
    CONSTRAINT session_family_ends CHECK ((ended_at IS NULL) = (cause IS NULL)),
    CONSTRAINT session_family_is_used CHECK (expires_at > used_at AND expires_at <= used_at + interval '30 days')
);
COMMENT ON TABLE session_family IS
    'A sign-in with the tokens that followed from it. The row of the user is the lock under which they come and go.';
CREATE INDEX session_family_of_user ON session_family (user_id, used_at);
CREATE INDEX session_family_expires ON session_family (expires_at);
CREATE TRIGGER session_family_bound BEFORE INSERT ON session_family
    FOR EACH ROW EXECUTE FUNCTION bound_families();
CREATE TRIGGER session_family_ends_once BEFORE UPDATE ON session_family
    FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

ALTER TABLE user_session ADD COLUMN family_id uuid REFERENCES session_family ON DELETE CASCADE;
CREATE INDEX user_session_of_family ON user_session (family_id);

CREATE TABLE refresh_token (
    token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
    family_id    uuid NOT NULL REFERENCES session_family ON DELETE CASCADE,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    used_at      timestamptz,
    -- The successor's text, sealed under a key that only this token's text gives.
    sealed       bytea CHECK (octet_length(sealed) <= 128),
    CONSTRAINT refresh_token_is_bounded
        CHECK (expires_at > created_at AND expires_at <= created_at + interval '30 days'),
    CONSTRAINT refresh_token_has_a_successor CHECK ((used_at IS NULL) = (sealed IS NULL))
);
CREATE INDEX refresh_token_of_family ON refresh_token (family_id, created_at);
CREATE UNIQUE INDEX refresh_token_unused ON refresh_token (family_id) WHERE used_at IS NULL;
CREATE TRIGGER refresh_token_is_used_once BEFORE UPDATE ON refresh_token
    FOR EACH ROW WHEN (OLD.used_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE TABLE mail_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('confirm', 'reset', 'reuse', 'password_changed', 'reset_done')),
    recipient  text COLLATE "C" NOT NULL
        CHECK (octet_length(recipient) <= 254 AND recipient ~ '^[!-?A-~]+@[a-z0-9.-]+$'),
    -- Null where nobody has looked yet whether there is a user.
    user_id    uuid REFERENCES app_user,
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at     timestamptz NOT NULL DEFAULT now(),
    tries      integer NOT NULL DEFAULT 0 CHECK (tries BETWEEN 0 AND 8)
);
COMMENT ON TABLE mail_outbox IS 'Letters that wait to be sent. A letter holds no secret: its token is made when it is sent.';
CREATE INDEX mail_outbox_due ON mail_outbox (due_at, id);
CREATE TRIGGER mail_outbox_bound BEFORE INSERT ON mail_outbox FOR EACH ROW EXECUTE FUNCTION bound_outbox();

CREATE TABLE letter_token (
    token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
    user_id      uuid NOT NULL REFERENCES app_user,
    kind         text NOT NULL CHECK (kind IN ('confirm', 'reset')),
    email        text COLLATE "C" NOT NULL CHECK (octet_length(email) <= 254),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    CONSTRAINT letter_token_is_short CHECK (expires_at > created_at
        AND expires_at <= created_at + CASE kind WHEN 'reset' THEN interval '30 minutes' ELSE interval '24 hours' END)
);
COMMENT ON TABLE letter_token IS 'What letters let their readers do, once: a used one is deleted.';
CREATE INDEX letter_token_of_user ON letter_token (user_id, kind, created_at);
CREATE INDEX letter_token_expires ON letter_token (expires_at);
CREATE TRIGGER letter_token_bound BEFORE INSERT ON letter_token FOR EACH ROW EXECUTE FUNCTION bound_letters();
CREATE TRIGGER letter_token_stands BEFORE UPDATE ON letter_token FOR EACH ROW EXECUTE FUNCTION refuse_change();

GRANT UPDATE (password_hash, email_confirmed_at) ON app_user TO svc_billing;
GRANT INSERT (family_id) ON user_session TO svc_billing;
GRANT SELECT, DELETE, INSERT (id, user_id, network, remembered, expires_at),
    UPDATE (network, used_at, expires_at, ended_at, cause) ON session_family TO svc_billing;
GRANT SELECT, DELETE, INSERT (token_sha256, family_id, expires_at), UPDATE (used_at, sealed) ON refresh_token
    TO svc_billing;
GRANT SELECT, DELETE, INSERT (kind, recipient, user_id), UPDATE (due_at, tries) ON mail_outbox TO svc_billing;
GRANT SELECT, DELETE, INSERT (token_sha256, user_id, kind, email, expires_at), UPDATE (expires_at) ON letter_token
    TO svc_billing;
