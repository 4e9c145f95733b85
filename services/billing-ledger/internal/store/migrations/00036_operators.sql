-- Operators with names, roles and codes, and their sessions.

-- +goose Up
CREATE TABLE operator (
    id            uuid PRIMARY KEY,
    -- Given once and for ever, because audit entries name it. With '@' and the id it fits an actor.
    name          text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,26}$'),
    role          text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'support', 'treasurer', 'admin')),
    state         text COLLATE "C" NOT NULL DEFAULT 'invited' CHECK (state IN ('invited', 'active', 'ended')),
    -- What an invited operator shows: its invitation until it has a password, then its confirmation.
    ticket_sha256 bytea UNIQUE CHECK (octet_length(ticket_sha256) = 32),
    ticket_at     timestamptz,
    ticket_until  timestamptz,
    password_hash text COLLATE "C"
        CHECK (octet_length(password_hash) <= 256 AND password_hash LIKE '$argon2id$v=19$m=%'),
    -- Sealed under a key of the pepper; see package operator.
    totp_sealed   bytea CHECK (octet_length(totp_sealed) BETWEEN 29 AND 128),
    -- The step of the last code that was used. A code counts once.
    totp_step     bigint NOT NULL DEFAULT 0 CHECK (totp_step >= 0),
    -- When its first code made the operator active. For a day from then on it approves no payout.
    active_since  timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT operator_active_since CHECK ((state = 'active') = (active_since IS NOT NULL)),
    CONSTRAINT operator_ticket CHECK ((state = 'invited') = (ticket_sha256 IS NOT NULL)
        AND (ticket_sha256 IS NULL) = (ticket_until IS NULL) AND (ticket_sha256 IS NULL) = (ticket_at IS NULL)),
    CONSTRAINT operator_ticket_is_short CHECK (ticket_until > ticket_at AND ticket_until <= ticket_at + interval '24 hours'),
    CONSTRAINT operator_secrets CHECK ((password_hash IS NULL) = (totp_sealed IS NULL)
        AND (state <> 'active' OR password_hash IS NOT NULL) AND (state <> 'ended' OR password_hash IS NULL))
);
COMMENT ON TABLE operator IS 'People who run the platform.';

CREATE TRIGGER operator_bound BEFORE INSERT ON operator FOR EACH ROW EXECUTE FUNCTION bound_operators();
-- Nobody becomes active but by a code, and whoever has ended stays so.
CREATE TRIGGER operator_begins_invited BEFORE INSERT ON operator
    FOR EACH ROW WHEN (NEW.state <> 'invited' OR NEW.password_hash IS NOT NULL) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER operator_ends_once BEFORE UPDATE ON operator
    FOR EACH ROW WHEN (OLD.state = 'ended') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER operator_code_counts_once BEFORE UPDATE ON operator FOR EACH ROW
    WHEN (NEW.totp_sealed = OLD.totp_sealed AND NEW.totp_step < OLD.totp_step
        OR OLD.state = 'invited' AND NEW.state = 'active'
            AND (OLD.totp_sealed IS NULL OR NEW.totp_sealed <> OLD.totp_sealed OR NEW.totp_step <= OLD.totp_step))
    EXECUTE FUNCTION refuse_change();
-- Nothing makes a new operator an old one.
CREATE TRIGGER operator_active_since_stays BEFORE UPDATE ON operator FOR EACH ROW
    WHEN (NEW.active_since <> CASE OLD.state WHEN 'active' THEN OLD.active_since ELSE now() END)
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER operator_keeps_an_admin BEFORE UPDATE ON operator FOR EACH ROW
    WHEN (OLD.role = 'admin' AND OLD.state = 'active' AND (NEW.role <> 'admin' OR NEW.state <> 'active'))
    EXECUTE FUNCTION keep_admin();

CREATE TABLE operator_session (
    id           uuid PRIMARY KEY,
    operator_id  uuid NOT NULL REFERENCES operator,
    token_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(token_sha256) = 32),
    -- The mark of the network that the operator signed in from.
    network      bytea NOT NULL CHECK (octet_length(network) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    used_at      timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    CONSTRAINT operator_session_is_short
        CHECK (expires_at > created_at AND expires_at <= created_at + interval '12 hours'),
    CONSTRAINT operator_session_is_used CHECK (used_at >= created_at)
);
COMMENT ON TABLE operator_session IS
    'Sign-ins of operators, kept for 30 days: they say from which networks an operator has signed in.';
CREATE INDEX operator_session_of_operator ON operator_session (operator_id, created_at);
CREATE INDEX operator_session_created ON operator_session (created_at);
CREATE TRIGGER operator_session_bound BEFORE INSERT ON operator_session
    FOR EACH ROW EXECUTE FUNCTION bound_operator_sessions();
CREATE TRIGGER operator_session_ends_once BEFORE UPDATE ON operator_session
    FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL OR NEW.used_at < OLD.used_at) EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT (id, name, role, ticket_sha256, ticket_at, ticket_until),
    UPDATE (role, state, ticket_sha256, ticket_at, ticket_until, password_hash, totp_sealed, totp_step,
        active_since) ON operator
    TO svc_billing;
GRANT SELECT, DELETE, INSERT (id, operator_id, token_sha256, network, expires_at), UPDATE (used_at, ended_at)
    ON operator_session TO svc_billing;

-- +goose StatementBegin
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
    EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
        || replace(actions, '])', ', ''invite_operator''::text, ''activate_operator''::text, ''set_operator_role''::text, '
            || '''reset_operator''::text, ''end_operator''::text, ''sign_in_operator''::text])');
END $$;
-- +goose StatementEnd
