-- Ways to sign in beside a password: wallets and OpenID providers.

-- +goose Up
-- A user who came by an identity has no e-mail and no password.
ALTER TABLE app_user ALTER COLUMN email DROP NOT NULL, ALTER COLUMN password_hash DROP NOT NULL;

CREATE TABLE user_identity (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES app_user,
    -- 'wallet', or the address of an OpenID provider.
    issuer     text COLLATE "C" NOT NULL
        CHECK (issuer = 'wallet' OR octet_length(issuer) <= 255 AND issuer ~ '^https://[!-~]+$'),
    -- Of a wallet its address in lower case, so that one wallet has one text.
    subject    text COLLATE "C" NOT NULL CHECK (octet_length(subject) BETWEEN 1 AND 255),
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz NOT NULL DEFAULT now(),
    -- The keyed digest of a wallet, by which the owner of its user's account is recognised.
    evidence   bytea CHECK (octet_length(evidence) = 32),
    CONSTRAINT user_identity_is_of_one_user UNIQUE (issuer, subject),
    CONSTRAINT user_identity_of_a_wallet_is_evidence CHECK ((issuer = 'wallet') = (evidence IS NOT NULL)),
    CONSTRAINT user_identity_wallet CHECK (issuer <> 'wallet' OR subject ~ '^0x[0-9a-f]{40}$')
);
COMMENT ON TABLE user_identity IS
    'Who users are to issuers. Identities come and go under the lock on the row of their user.';
CREATE INDEX user_identity_of_user ON user_identity (user_id, created_at);
CREATE TRIGGER user_identity_bound BEFORE INSERT ON user_identity
    FOR EACH ROW EXECUTE FUNCTION bound_identities();
CREATE TRIGGER user_identity_stands BEFORE UPDATE ON user_identity
    FOR EACH ROW WHEN ((OLD.id, OLD.user_id, OLD.issuer, OLD.subject, OLD.evidence) IS DISTINCT FROM
        (NEW.id, NEW.user_id, NEW.issuer, NEW.subject, NEW.evidence))
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER user_identity_marks AFTER INSERT ON user_identity
    FOR EACH ROW WHEN (NEW.issuer = 'wallet') EXECUTE FUNCTION mark_wallet();

-- Whoever is a user can sign in.
CREATE CONSTRAINT TRIGGER app_user_has_a_way_in AFTER INSERT OR UPDATE OF email, password_hash ON app_user
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.email IS NULL OR NEW.password_hash IS NULL)
    EXECUTE FUNCTION check_way_in();
CREATE CONSTRAINT TRIGGER user_identity_leaves_a_way_in AFTER DELETE ON user_identity
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_way_in();

CREATE TABLE used_proof (
    nonce      bytea PRIMARY KEY CHECK (octet_length(nonce) = 32),
    user_id    uuid NOT NULL REFERENCES app_user,
    used_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT used_proof_is_short CHECK (expires_at <= used_at + interval '15 minutes')
);
COMMENT ON TABLE used_proof IS
    'Proofs that were used, of wallets and of sign-ins at OpenID providers, until they count no longer. '
    'Nothing is kept of a proof before it is used.';
CREATE INDEX used_proof_of_user ON used_proof (user_id);
CREATE INDEX used_proof_expires ON used_proof (expires_at);
CREATE TRIGGER used_proof_bound BEFORE INSERT ON used_proof FOR EACH ROW EXECUTE FUNCTION bound_proofs();
CREATE TRIGGER used_proof_stands BEFORE UPDATE ON used_proof
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Whoever takes a way to sign in away ends the other sessions, and the user gets a letter.
ALTER TABLE session_family DROP CONSTRAINT session_family_cause_check;
ALTER TABLE session_family ADD CONSTRAINT session_family_cause_check
    CHECK (cause IN ('logout', 'everywhere', 'ended', 'password', 'reset', 'reuse', 'identity'));
ALTER TABLE mail_outbox DROP CONSTRAINT mail_outbox_kind_check;
ALTER TABLE mail_outbox ADD CONSTRAINT mail_outbox_kind_check
    CHECK (kind IN ('confirm', 'reset', 'reuse', 'password_changed', 'reset_done', 'identity_linked',
        'identity_ended'));

GRANT SELECT, DELETE, INSERT (id, user_id, issuer, subject, evidence), UPDATE (used_at) ON user_identity TO svc_billing;
-- The right to change a column is what locking rows takes; nothing changes them.
GRANT SELECT, DELETE, INSERT (nonce, user_id, expires_at), UPDATE (expires_at) ON used_proof TO svc_billing;
