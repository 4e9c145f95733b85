-- Slices: credit of an account that the wallet holds for no request yet, so that one replica, its
-- owner, admits plain requests from memory (see package slice). wallet.held is the sum of the
-- account's open holds and its slices. All of it is guarded by the lock on the account's wallet.

-- +goose Up
CREATE TABLE slice (
    account_id    uuid NOT NULL REFERENCES account,
    -- The moment of its opening in microseconds since 1970. A sequence would go back with a restored backup,
    -- and give a pin of the lost time another slice's credit.
    epoch         bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    -- The process that admits from it, and where other replicas reach it; empty when there are none.
    owner         uuid NOT NULL,
    address       text NOT NULL CHECK (char_length(address) <= 255),
    -- nano-USD for requests whose holds are not written yet, and how many of them there may be.
    amount        bigint NOT NULL DEFAULT 0 CHECK (amount >= 0),
    places        integer NOT NULL DEFAULT 0 CHECK (places BETWEEN 0 AND 256),
    -- The owner counts as dead afterwards.
    alive_until   timestamptz NOT NULL,
    state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'stranded')),
    -- Somebody asks the owner through the database to close the slice, because it could not be reached. From
    -- then on the owner lives no longer.
    recalled      boolean NOT NULL DEFAULT false,
    -- How long a stranded slice waits for the holds of requests that its owner admitted, and until when.
    reclaim_after interval NOT NULL CHECK (reclaim_after > interval '0'),
    reclaim_at    timestamptz,
    PRIMARY KEY (account_id, epoch),
    CONSTRAINT slice_is_reclaimed CHECK ((state = 'stranded') = (reclaim_at IS NOT NULL))
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX slice_open ON slice (account_id) WHERE state = 'open';

-- A stranded slice gives away what it has, and gets nothing.
CREATE TRIGGER slice_strands_once BEFORE UPDATE ON slice
    FOR EACH ROW WHEN (OLD.state = 'stranded'
        AND (NEW.state <> OLD.state OR NEW.reclaim_at <> OLD.reclaim_at OR NEW.amount > OLD.amount OR NEW.places > OLD.places))
    EXECUTE FUNCTION refuse_change();

GRANT SELECT, DELETE, INSERT (account_id, owner, address, amount, places, alive_until, reclaim_after),
    UPDATE (address, amount, places, alive_until, state, recalled, reclaim_at) ON slice TO svc_billing;

-- What an owner decides by changes only while nobody admits from a slice.
CREATE TRIGGER account_meets_no_slice BEFORE UPDATE OF state ON account
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION meet_no_slice();
CREATE TRIGGER account_limits_meet_no_slice BEFORE INSERT OR UPDATE OR DELETE ON account_limits
    FOR EACH ROW EXECUTE FUNCTION meet_no_slice();
CREATE TRIGGER account_plan_meets_no_slice BEFORE INSERT OR UPDATE ON account_plan
    FOR EACH ROW EXECUTE FUNCTION meet_no_slice();
CREATE TRIGGER consumer_key_meets_no_slice BEFORE INSERT ON consumer_key
    FOR EACH ROW EXECUTE FUNCTION meet_no_slice();
CREATE TRIGGER consumer_key_changes_without_slice BEFORE UPDATE OF state, revoked_at, expires_at, allowed_models, budget,
        budget_period ON consumer_key
    FOR EACH ROW WHEN ((NEW.state, NEW.revoked_at, NEW.expires_at, NEW.allowed_models, NEW.budget, NEW.budget_period)
        IS DISTINCT FROM (OLD.state, OLD.revoked_at, OLD.expires_at, OLD.allowed_models, OLD.budget, OLD.budget_period))
    EXECUTE FUNCTION meet_no_slice();
-- Credit that a slice holds can be spent otherwise, when its owner gives it back.
CREATE TRIGGER wallet_meets_no_slice BEFORE UPDATE OF posted ON wallet
    FOR EACH ROW WHEN (NEW.posted < OLD.posted AND NEW.held > NEW.posted) EXECUTE FUNCTION meet_no_slice();
