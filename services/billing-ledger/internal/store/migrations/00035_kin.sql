-- By what accounts and providers of one owner are recognised where no user has both: see package
-- kin. A mark is a cause and the keyed digest of its evidence, never the evidence itself.

-- +goose Up
CREATE TABLE account_mark (
    account_id uuid NOT NULL REFERENCES account,
    evidence   bytea NOT NULL CHECK (octet_length(evidence) = 32),
    cause      text COLLATE "C" NOT NULL CHECK (cause IN ('wallet', 'deposit_source', 'card')),
    marked_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, evidence, cause)
);
COMMENT ON TABLE account_mark IS 'By what the owners of accounts are recognised.';
-- How many accounts share a source of deposits.
CREATE INDEX account_mark_evidence ON account_mark (evidence, cause);

CREATE TABLE provider_mark (
    provider_id uuid NOT NULL,
    evidence    bytea NOT NULL CHECK (octet_length(evidence) = 32),
    cause       text COLLATE "C" NOT NULL CHECK (cause IN ('wallet', 'payout_address', 'deposit_source', 'card')),
    marked_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider_id, evidence, cause)
);
COMMENT ON TABLE provider_mark IS 'By what the owners of providers are recognised; a user''s account marks its provider, too.';
CREATE INDEX provider_mark_evidence ON provider_mark (evidence, provider_id);
-- For the lookup whether a provider's owner has signed with an address. It costs the same however
-- many providers are paid at that address.
CREATE INDEX provider_mark_wallet ON provider_mark (evidence) WHERE cause = 'wallet';

CREATE TRIGGER account_mark_bound BEFORE INSERT ON account_mark FOR EACH ROW EXECUTE FUNCTION bound_marks();
CREATE TRIGGER provider_mark_bound BEFORE INSERT ON provider_mark FOR EACH ROW EXECUTE FUNCTION bound_marks();
CREATE TRIGGER account_mark_is_its_providers AFTER INSERT ON account_mark
    FOR EACH ROW EXECUTE FUNCTION mark_own_provider();
CREATE TRIGGER app_user_provider_is_marked AFTER INSERT OR UPDATE OF provider_id ON app_user
    FOR EACH ROW WHEN (NEW.provider_id IS NOT NULL) EXECUTE FUNCTION mark_linked_provider();
CREATE TRIGGER card_payment_marks AFTER INSERT ON card_payment
    FOR EACH ROW WHEN (NEW.card_fingerprint IS NOT NULL) EXECUTE FUNCTION mark_card();

-- The cards that have paid already. Sources of earlier deposits are not known here.
INSERT INTO account_mark (account_id, evidence, cause)
    SELECT DISTINCT c.account_id, p.card_fingerprint, 'card' FROM card_payment p JOIN checkout c ON c.id = p.checkout_id
    WHERE p.card_fingerprint IS NOT NULL AND c.account_id IS NOT NULL;
INSERT INTO provider_mark (provider_id, evidence, cause)
    SELECT DISTINCT c.provider_id, p.card_fingerprint, 'card' FROM card_payment p JOIN checkout c ON c.id = p.checkout_id
    WHERE p.card_fingerprint IS NOT NULL AND c.provider_id IS NOT NULL
    ON CONFLICT DO NOTHING;

ALTER TABLE held_earning DROP CONSTRAINT held_earning_rule_check;
ALTER TABLE held_earning ADD CONSTRAINT held_earning_rule_check
    CHECK (rule IN ('same_user', 'wallet', 'payout_address', 'deposit_source', 'card'));

GRANT SELECT, INSERT (account_id, evidence, cause) ON account_mark TO svc_billing;
GRANT SELECT, INSERT (provider_id, evidence, cause) ON provider_mark TO svc_billing;
