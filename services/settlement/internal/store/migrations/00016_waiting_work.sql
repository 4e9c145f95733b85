-- What waits is marked, and what is held is summed as it changes, so that no look reads what is over. Two bounds that
-- were counted under a lock are constraints.

-- +goose Up
-- Marks of rows that are kept as they are. The row that ends the work has them set by its trigger, and nobody else may.
ALTER TABLE chain_call ADD COLUMN ended boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN chain_call.ended IS 'Whether the call has its end. Nothing else of a call changes.';
ALTER TABLE call_end ADD COLUMN booked boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN call_end.booked IS 'Whether the books have the cost, or need not. Nothing else of an end changes.';
ALTER TABLE batch_block ADD COLUMN lifted boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN batch_block.lifted IS 'Whether the block is lifted. Nothing else of a block changes.';

DROP TRIGGER chain_call_keep ON chain_call;
DROP TRIGGER call_end_keep ON call_end;
DROP TRIGGER batch_block_keep ON batch_block;
UPDATE chain_call c SET ended = true FROM call_end e
    WHERE (e.chain_id, e.sender, e.nonce) = (c.chain_id, c.sender, c.nonce);
UPDATE call_end e SET booked = true FROM call_gas g
    WHERE (g.chain_id, g.sender, g.nonce) = (e.chain_id, e.sender, e.nonce) AND (g.worthless OR g.entry_id IS NOT NULL);
UPDATE batch_block b SET lifted = true FROM batch_unblock u
    WHERE (u.day, u.provider_id, u.cause) = (b.day, b.provider_id, b.cause);
CREATE TRIGGER chain_call_keep BEFORE DELETE ON chain_call FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER call_end_keep BEFORE DELETE ON call_end FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER batch_block_keep BEFORE DELETE ON batch_block FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER chain_call_moves BEFORE UPDATE ON chain_call FOR EACH ROW EXECUTE FUNCTION chain_call_moves();
CREATE TRIGGER call_end_moves BEFORE UPDATE ON call_end FOR EACH ROW EXECUTE FUNCTION call_end_moves();
CREATE TRIGGER batch_block_moves BEFORE UPDATE ON batch_block FOR EACH ROW EXECUTE FUNCTION batch_block_moves();

CREATE INDEX chain_call_waiting ON chain_call (chain_id, created_at, sender, nonce) WHERE NOT ended;
CREATE INDEX call_end_unbooked ON call_end (chain_id, ended_at, sender, nonce)
    WHERE NOT booked AND cost >= 1000000000;
CREATE INDEX call_end_by_block ON call_end (chain_id, block);
CREATE INDEX batch_block_open ON batch_block (provider_id, day, cause) WHERE NOT lifted;

-- What calls cost that the books do not have, dust too.
CREATE TABLE chain_unbooked (
    chain_id bigint PRIMARY KEY CHECK (chain_id IN (1, 254, 8453)),
    wei      numeric(78,0) NOT NULL
);
COMMENT ON TABLE chain_unbooked IS 'The cost of calls of each chain that the books do not have. The triggers of call_end and call_gas keep it.';
INSERT INTO chain_unbooked (chain_id, wei)
    SELECT e.chain_id, sum(e.cost - CASE WHEN g.entry_id IS NULL THEN 0 ELSE g.units::numeric * 1000000000 END)
    FROM call_end e LEFT JOIN call_gas g USING (chain_id, sender, nonce) GROUP BY e.chain_id;

CREATE TRIGGER call_end_marks AFTER INSERT ON call_end FOR EACH ROW EXECUTE FUNCTION call_end_marks();
CREATE TRIGGER call_gas_marks AFTER INSERT OR UPDATE ON call_gas FOR EACH ROW EXECUTE FUNCTION call_gas_marks();
CREATE TRIGGER batch_unblock_marks AFTER INSERT ON batch_unblock FOR EACH ROW EXECUTE FUNCTION batch_unblock_marks();
GRANT SELECT ON chain_unbooked TO svc_settlement;

-- What deposit addresses hold. All sums are of the smallest units.
CREATE TABLE deposit_balance (
    deposit_index bigint NOT NULL REFERENCES deposit_address,
    chain_id      bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    token         text COLLATE "C" NOT NULL CHECK (token ~ '^(1|254|8453):[a-z]{3,8}$'),
    -- Final transfers, and those of them that are posted.
    arrived       numeric NOT NULL DEFAULT 0 CHECK (arrived >= 0),
    posted        numeric NOT NULL DEFAULT 0 CHECK (posted >= 0),
    dust          numeric NOT NULL DEFAULT 0 CHECK (dust >= 0),
    -- Sweeps that have not ended, and those that took something.
    leaving       numeric NOT NULL DEFAULT 0 CHECK (leaving >= 0),
    swept         numeric NOT NULL DEFAULT 0 CHECK (swept >= 0),
    PRIMARY KEY (deposit_index, chain_id, token),
    CONSTRAINT deposit_balance_posted CHECK (posted <= arrived)
);
COMMENT ON TABLE deposit_balance IS 'The sums of transfer, deposit_dust and sweep by address and token. The triggers of those tables keep it, and nobody else.';
CREATE INDEX deposit_balance_free ON deposit_balance (chain_id, token, (posted + dust - leaving - swept));
CREATE INDEX deposit_balance_unswept ON deposit_balance (token, deposit_index) WHERE posted > swept;
INSERT INTO deposit_balance (deposit_index, chain_id, token, arrived, posted, dust, leaving, swept)
    SELECT deposit_index, chain_id, token, sum(arrived), sum(posted), sum(dust), sum(leaving), sum(swept) FROM (
        SELECT deposit_index, chain_id, token, amount AS arrived,
            CASE WHEN state = 'final' THEN 0 ELSE amount END AS posted, 0 AS dust, 0 AS leaving, 0 AS swept
        FROM transfer WHERE state NOT IN ('seen', 'dropped')
        UNION ALL SELECT deposit_index, chain_id, token, 0, 0, amount, 0, 0 FROM deposit_dust
        UNION ALL SELECT deposit_index, chain_id, token, 0, 0, 0, CASE WHEN state = 'done' THEN 0 ELSE amount END,
            CASE WHEN state = 'done' THEN amount ELSE 0 END FROM sweep WHERE state <> 'failed'
    ) AS sums GROUP BY deposit_index, chain_id, token;
CREATE TRIGGER transfer_sums AFTER INSERT OR UPDATE ON transfer FOR EACH ROW EXECUTE FUNCTION transfer_sums();
CREATE TRIGGER deposit_dust_sums AFTER INSERT OR UPDATE ON deposit_dust FOR EACH ROW EXECUTE FUNCTION deposit_dust_sums();
CREATE TRIGGER sweep_sums AFTER INSERT OR UPDATE ON sweep FOR EACH ROW EXECUTE FUNCTION sweep_sums();
GRANT SELECT ON deposit_balance TO svc_settlement;

CREATE INDEX transfer_by_block ON transfer (chain_id, block);
CREATE INDEX sweep_open ON sweep (state, planned_at) WHERE state IN ('planned', 'sent');
CREATE INDEX sweep_by_transaction ON sweep (tx_hash) WHERE state = 'done';
CREATE INDEX sweep_failed ON sweep (planned_at) WHERE state = 'failed';
CREATE INDEX position_held ON position (chain_id) INCLUDE (free, escrow) WHERE free > 0 OR escrow > 0;
CREATE INDEX penalty_part_lapsed ON penalty_part (penalty_id) WHERE state = 'lapsed';
CREATE INDEX batch_day_open ON batch_day (day) WHERE committed_at IS NULL;
CREATE INDEX batch_account_held ON batch_account (month) WHERE account = 'l:provider:plan_held';

-- At most 60 conversions of a provider begin within an hour. Conversion n begins an hour after conversion n - 60 at the
-- earliest. The trigger conversion_begins gives each conversion its number.
ALTER TABLE conversion ADD COLUMN number bigint;
ALTER TABLE conversion ADD COLUMN bound_number bigint GENERATED ALWAYS AS
    (CASE WHEN number > 60 THEN number - 60 END) STORED;
ALTER TABLE conversion ADD COLUMN bound_at timestamptz;
-- When the books are told next, and how often they refused without a reason that ends it.
ALTER TABLE conversion ADD COLUMN due_at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE conversion ADD COLUMN tries integer NOT NULL DEFAULT 0 CHECK (tries >= 0);
ALTER TABLE conversion DISABLE TRIGGER conversion_moves;
UPDATE conversion c SET number = n.number FROM (SELECT conversion_id,
        row_number() OVER (PARTITION BY provider_id ORDER BY requested_at, conversion_id) AS number FROM conversion) AS n
    WHERE n.conversion_id = c.conversion_id;
UPDATE conversion c SET bound_at = b.requested_at FROM conversion b
    WHERE b.provider_id = c.provider_id AND b.number = c.bound_number;
ALTER TABLE conversion ENABLE TRIGGER conversion_moves;
ALTER TABLE conversion ALTER COLUMN number SET NOT NULL;
ALTER TABLE conversion ADD CONSTRAINT conversion_number CHECK (number > 0);
ALTER TABLE conversion ADD CONSTRAINT conversion_place UNIQUE (provider_id, number);
ALTER TABLE conversion ADD CONSTRAINT conversion_at UNIQUE (provider_id, number, requested_at);
ALTER TABLE conversion ADD CONSTRAINT conversion_follows FOREIGN KEY (provider_id, bound_number, bound_at)
    REFERENCES conversion (provider_id, number, requested_at);
-- Rows from before the bound may break it.
ALTER TABLE conversion ADD CONSTRAINT conversion_hour CHECK (CASE WHEN bound_number IS NULL THEN bound_at IS NULL
    ELSE bound_at IS NOT NULL AND requested_at - bound_at >= interval '1 hour' END) NOT VALID;
DROP INDEX conversion_open;
CREATE INDEX conversion_due ON conversion (due_at) WHERE entry_id IS NULL AND refusal IS NULL;
CREATE TRIGGER conversion_begins BEFORE INSERT ON conversion FOR EACH ROW EXECUTE FUNCTION conversion_begins();
GRANT UPDATE (due_at, tries) ON conversion TO svc_settlement;

-- A refund is asked for once a day at most: each follows one of the same provider that is at least a day older, and of
-- two none follows the same one.
ALTER TABLE collateral_refund ADD COLUMN previous_at timestamptz;
ALTER TABLE collateral_refund DISABLE TRIGGER collateral_refund_moves;
UPDATE collateral_refund r SET previous_at = p.previous_at FROM (SELECT refund_id,
        lag(asked_at) OVER (PARTITION BY provider_id ORDER BY asked_at) AS previous_at FROM collateral_refund) AS p
    WHERE p.refund_id = r.refund_id AND p.previous_at IS NOT NULL;
ALTER TABLE collateral_refund ENABLE TRIGGER collateral_refund_moves;
ALTER TABLE collateral_refund ADD CONSTRAINT collateral_refund_at UNIQUE (provider_id, asked_at);
ALTER TABLE collateral_refund ADD CONSTRAINT collateral_refund_follows FOREIGN KEY (provider_id, previous_at)
    REFERENCES collateral_refund (provider_id, asked_at);
ALTER TABLE collateral_refund ADD CONSTRAINT collateral_refund_follows_one
    UNIQUE NULLS NOT DISTINCT (provider_id, previous_at);
ALTER TABLE collateral_refund ADD CONSTRAINT collateral_refund_day
    CHECK (asked_at - previous_at >= interval '24 hours') NOT VALID;
