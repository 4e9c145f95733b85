-- The settlement chain of each provider, with its history.

-- +goose Up
-- The row is inserted at first sight. Payouts, refunds and penalties of a provider are begun under its lock.
CREATE TABLE provider (
    provider_id         uuid PRIMARY KEY,
    settlement_chain_id bigint NOT NULL DEFAULT 8453 CHECK (settlement_chain_id IN (1, 254, 8453))
);
COMMENT ON TABLE provider IS 'The chain on which a provider is paid. Its row is the lock under which money of the provider begins to move.';

CREATE TABLE settlement_chain_change (
    provider_id uuid NOT NULL REFERENCES provider,
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    chain_id    bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    actor       text COLLATE "C" NOT NULL
        CHECK (actor IN ('provider', 'platform') OR actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    PRIMARY KEY (provider_id, since)
);
COMMENT ON TABLE settlement_chain_change IS 'Which chain a provider''s settlement chain became, and since when. The chain of a day is the last one before its end. Only ever added.';

CREATE TRIGGER settlement_chain_change_keep BEFORE UPDATE OR DELETE ON settlement_chain_change
    FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER settlement_chain_change_keep_all BEFORE TRUNCATE ON settlement_chain_change
    FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept();
CREATE CONSTRAINT TRIGGER settlement_chain_entered AFTER INSERT OR UPDATE ON provider
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION settlement_chain_entered();
CREATE CONSTRAINT TRIGGER settlement_chain_follows AFTER INSERT ON settlement_chain_change
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION settlement_chain_follows();

GRANT SELECT, INSERT (provider_id), UPDATE (settlement_chain_id) ON provider TO svc_settlement;
GRANT SELECT, INSERT (provider_id, chain_id, actor) ON settlement_chain_change TO svc_settlement;
