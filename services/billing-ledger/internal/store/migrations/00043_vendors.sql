-- Vendors of gateway models (line 8): the platform buys what they serve, and owes each its own
-- price. A vendor is no provider: it accrues nothing, and no plan, hold or batch has its part.

-- +goose Up

-- The providers whose usage said that they are vendors. A later count of the same provider,
-- by a review or by a hub of an earlier release, does not say it.
CREATE TABLE vendor (
    vendor_id uuid PRIMARY KEY,
    first_at  timestamptz NOT NULL DEFAULT now()
);

-- What a price version asks for a prompt token that the vendor read from its cache. Versions
-- never change, so the version that a hold pins has the rate. A version without it is not here.
CREATE TABLE vendor_price (
    price_version_id uuid PRIMARY KEY,
    cached_rate      bigint NOT NULL CHECK (cached_rate > 0)
);

GRANT SELECT, INSERT ON vendor, vendor_price TO svc_billing;

-- cached_rate is that of the pinned version, whoever serves. cached_tokens are counted of a
-- vendor alone.
ALTER TABLE usage_settlement
    ADD COLUMN vendor        boolean NOT NULL DEFAULT false,
    ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0 CHECK (cached_tokens >= 0),
    ADD COLUMN cached_rate   bigint NOT NULL DEFAULT 0 CHECK (cached_rate >= 0),
    ADD CONSTRAINT only_a_vendor_is_cached CHECK (vendor OR cached_tokens = 0);
CREATE TRIGGER cached_within_prompt AFTER INSERT ON usage_settlement FOR EACH ROW
    WHEN (NEW.cached_tokens > NEW.prompt_tokens OR NEW.cached_rate > NEW.payout_input_rate)
    EXECUTE FUNCTION refuse_uneven_cache();

-- What was served by a vendor when the hold was closed is bought all the same. A vendor is paid
-- by the bank, and never more than it is owed.
INSERT INTO entry_kind (kind, line) VALUES ('vendor_paid', 8);
INSERT INTO posting_rule (entry_kind, account_kind, side, unit) VALUES
    ('orphan_work', 'l:vendor:payable', 'credit', 'usd'),
    ('vendor_paid', 'l:vendor:payable', 'debit', 'usd'),
    ('vendor_paid', 'a:bank', 'credit', 'usd'),
    ('reversal', 'l:vendor:payable', 'debit', 'usd'),
    ('reversal', 'l:vendor:payable', 'credit', 'usd');

CREATE CONSTRAINT TRIGGER vendor_never_overpaid AFTER INSERT ON posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.account_kind = 'l:vendor:payable' AND NEW.amount < 0)
    EXECUTE FUNCTION keep_in_credit();

-- +goose StatementBegin
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
    EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
        || replace(actions, '])', ', ''pay_vendor''::text])');
END $$;
-- +goose StatementEnd

-- Days that are sealed from now on have the three columns in their digest.
ALTER TABLE seal DROP CONSTRAINT seal_version_check;
ALTER TABLE seal ADD CONSTRAINT seal_version_check CHECK (version BETWEEN 1 AND 3);
