-- What was read of chains, where tokens for consumers arrive, and what arrived.

-- +goose Up
-- One process at a time watches a chain. It has the last fence, and writes nothing under an older one.
CREATE TABLE chain_cursor (
    chain_id      bigint PRIMARY KEY CHECK (chain_id IN (1, 254, 8453)),
    block         bigint NOT NULL CHECK (block >= 0),
    block_hash    bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    fence         bigint NOT NULL CHECK (fence > 0),
    -- Where the second reading is. It follows the first by a day.
    again         bigint NOT NULL CHECK (again >= 0 AND again <= block),
    -- When a block was last found final, or found to be the last.
    progressed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE chain_cursor IS 'The last final block of each chain whose events are stored, and who may go on.';

CREATE TABLE chain_halt (
    halt_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id    bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    block       bigint NOT NULL CHECK (block >= 0),
    -- The hash that was stored of the block, and the one that the chain has now.
    was_hash    bytea NOT NULL CHECK (octet_length(was_hash) = 32),
    is_hash     bytea NOT NULL CHECK (octet_length(is_hash) = 32 AND is_hash <> was_hash),
    halted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    lifted_at   timestamptz CHECK (lifted_at >= halted_at),
    lifted_by   text COLLATE "C" CHECK (lifted_by ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason      text COLLATE "C" CHECK (length(reason) BETWEEN 1 AND 2000),
    accepted    bytea CHECK (octet_length(accepted) = 32),
    CHECK ((lifted_at IS NULL) = (lifted_by IS NULL) AND (lifted_at IS NULL) = (reason IS NULL)
        AND (lifted_at IS NULL) = (accepted IS NULL))
);
CREATE UNIQUE INDEX chain_halt_one ON chain_halt (chain_id) WHERE lifted_at IS NULL;
COMMENT ON TABLE chain_halt IS 'A final block of a chain changed. Until an operator accepts a block, nobody is credited or paid on the chain.';

-- The hashes of final blocks from which a change is traced: each block that a cursor stood at, and each with events.
CREATE TABLE chain_block (
    chain_id   bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    block      bigint NOT NULL CHECK (block >= 0),
    block_hash bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    PRIMARY KEY (chain_id, block)
);
COMMENT ON TABLE chain_block IS 'Final blocks that were read: the trace by which a changed history is found, and how deep it changed.';

CREATE TABLE chain_event (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id   bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    block      bigint NOT NULL CHECK (block >= 0),
    block_hash bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    tx_hash    bytea NOT NULL CHECK (octet_length(tx_hash) = 32),
    -- The place of the log within its own receipt, which stays when the transaction is mined again.
    place      integer NOT NULL CHECK (place >= 0),
    log_index  bigint NOT NULL CHECK (log_index >= place),
    contract   bytea NOT NULL CHECK (octet_length(contract) = 20),
    topics     bytea[] NOT NULL CHECK (cardinality(topics) <= 4),
    data       bytea NOT NULL CHECK (octet_length(data) <= 65536),
    -- The time of the block.
    at         timestamptz NOT NULL,
    UNIQUE (chain_id, tx_hash, place)
);
CREATE INDEX chain_event_in_order ON chain_event (chain_id, contract, seq);
COMMENT ON TABLE chain_event IS 'Final logs of the collateral contract of each chain, in the order (chain, seq), which is that of blocks and logs but for those that a second reading found. Only ever added.';

CREATE TABLE chain_event_gone (
    chain_id  bigint NOT NULL,
    tx_hash   bytea NOT NULL,
    place     integer NOT NULL,
    found_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, tx_hash, place),
    FOREIGN KEY (chain_id, tx_hash, place) REFERENCES chain_event (chain_id, tx_hash, place)
);
COMMENT ON TABLE chain_event_gone IS 'Events that a chain no longer has, after an operator accepted its changed history. Only ever added.';

CREATE TABLE deposit_address (
    deposit_index bigint PRIMARY KEY CHECK (deposit_index BETWEEN 0 AND 2147483647),
    account_id    uuid NOT NULL UNIQUE,
    address       bytea NOT NULL UNIQUE CHECK (octet_length(address) = 20),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE deposit_address IS 'The address of each consumer, the same on all chains: m/44''/60''/0''/0/index of the xpub. Never changed or taken away.';

-- What an address received below a cent is summed, because anybody may send it in any number.
CREATE TABLE deposit_dust (
    deposit_index bigint NOT NULL REFERENCES deposit_address,
    chain_id      bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    token         text COLLATE "C" NOT NULL CHECK (token ~ '^(1|254|8453):[a-z]{3,8}$'),
    amount        numeric(78,0) NOT NULL CHECK (amount > 0),
    transfers     bigint NOT NULL CHECK (transfers > 0),
    PRIMARY KEY (deposit_index, chain_id, token)
);
COMMENT ON TABLE deposit_dust IS 'Transfers below a cent, one row for each address and token. They are not credited.';

CREATE TABLE transfer (
    chain_id      bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    tx_hash       bytea NOT NULL CHECK (octet_length(tx_hash) = 32),
    -- The place among the logs of the transaction's own receipt; of coins 0.
    place         bigint NOT NULL CHECK (place BETWEEN 0 AND 4294967295),
    block         bigint NOT NULL CHECK (block >= 0),
    block_hash    bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    at            timestamptz NOT NULL,
    token         text COLLATE "C" NOT NULL CHECK (token ~ '^(1|254|8453):[a-z]{3,8}$'
        AND split_part(token, ':', 1) = chain_id::text),
    -- Zero where a balance grew and no transaction says from whom.
    sender        bytea NOT NULL CHECK (octet_length(sender) = 20),
    deposit_index bigint NOT NULL REFERENCES deposit_address,
    amount        numeric(78,0) NOT NULL CHECK (amount > 0),
    -- What the books count of it, and what they leave out.
    units         bigint NOT NULL CHECK (units > 0),
    dust          numeric(78,0) NOT NULL CHECK (dust >= 0),
    state         text COLLATE "C" NOT NULL
        CHECK (state IN ('seen', 'final', 'credited', 'unmatched', 'denied', 'returned', 'dropped')),
    -- What is to become of it, fixed before it is posted, with the quote of a coin.
    decision      text COLLATE "C" CHECK (decision IN ('credit', 'stray', 'deny')),
    account_id    uuid,
    rate          bigint CHECK (rate > 0),
    quote_source  text COLLATE "C" CHECK (length(quote_source) BETWEEN 1 AND 64),
    quote_at      timestamptz,
    screened      text COLLATE "C" CHECK (length(screened) BETWEEN 1 AND 200),
    entry_id      text COLLATE "C" CHECK (length(entry_id) BETWEEN 1 AND 100),
    -- Why it waits, for people.
    waits         text COLLATE "C" CHECK (waits IN ('minimum', 'quote', 'balance', 'screening')),
    -- An operator's decision, and its entry.
    ended         text COLLATE "C" CHECK (ended IN ('matched', 'returned', 'gone')),
    ended_by      text COLLATE "C" CHECK (ended_by ~ '^(platform|operator(:[a-z0-9._@-]{1,64})?)$'),
    end_reason    text COLLATE "C" CHECK (length(end_reason) BETWEEN 1 AND 2000),
    return_tx     bytea CHECK (octet_length(return_tx) = 32),
    end_entry_id  text COLLATE "C" CHECK (length(end_entry_id) BETWEEN 1 AND 100),
    found_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, tx_hash, place),
    CHECK ((rate IS NULL) = (quote_source IS NULL) AND (rate IS NULL) = (quote_at IS NULL)),
    CONSTRAINT transfer_quoted CHECK (decision IS NULL OR (rate IS NULL) = (token IN ('1:usdc', '8453:usdc'))),
    CONSTRAINT transfer_credited_once CHECK (
        CASE state WHEN 'seen' THEN decision IS NULL AND entry_id IS NULL
                   WHEN 'final' THEN entry_id IS NULL
                   WHEN 'credited' THEN decision = 'credit' AND entry_id IS NOT NULL AND account_id IS NOT NULL
                        OR ended = 'matched' AND end_entry_id IS NOT NULL AND account_id IS NOT NULL
                   WHEN 'unmatched' THEN decision = 'stray' AND entry_id IS NOT NULL
                   WHEN 'denied' THEN decision = 'deny' AND entry_id IS NOT NULL
                   WHEN 'returned' THEN ended = 'returned' AND entry_id IS NOT NULL AND end_entry_id IS NOT NULL
                   ELSE entry_id IS NULL OR ended = 'gone' AND end_entry_id IS NOT NULL END),
    CHECK ((ended IS NULL) = (ended_by IS NULL)),
    CHECK (ended IS NOT NULL OR end_entry_id IS NULL),
    CHECK ((ended = 'returned') = (return_tx IS NOT NULL))
);
CREATE INDEX transfer_of_address ON transfer (deposit_index, found_at DESC);
CREATE INDEX transfer_open ON transfer (deposit_index) WHERE state = 'final' AND decision IS NULL;
CREATE INDEX transfer_due ON transfer (chain_id, found_at)
    WHERE state = 'final' AND decision IS NOT NULL OR ended IS NOT NULL AND end_entry_id IS NULL;
CREATE INDEX transfer_above ON transfer (chain_id, block) WHERE state IN ('seen', 'final');
COMMENT ON TABLE transfer IS 'What arrived at deposit addresses, each transfer once by chain, transaction and its place in the receipt. It is credited at most once.';

CREATE TABLE transfer_transition (
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL,
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO transfer_transition VALUES
    ('seen', 'final'), ('seen', 'dropped'), ('dropped', 'seen'), ('dropped', 'final'),
    ('final', 'credited'), ('final', 'unmatched'), ('final', 'denied'), ('final', 'dropped'),
    ('unmatched', 'credited'), ('unmatched', 'returned'), ('unmatched', 'dropped'),
    ('denied', 'returned'), ('denied', 'credited'), ('denied', 'dropped'), ('credited', 'dropped');
COMMENT ON TABLE transfer_transition IS 'The ways that a transfer may go, as internal/deposit has them.';

CREATE TABLE quote (
    token  text COLLATE "C" NOT NULL CHECK (token ~ '^(1|254|8453):[a-z]{3,8}$'),
    source text COLLATE "C" NOT NULL CHECK (length(source) BETWEEN 1 AND 64),
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- In nano-USD for one whole token.
    rate   bigint NOT NULL CHECK (rate > 0),
    PRIMARY KEY (token, source, at)
);
CREATE INDEX quote_latest ON quote (token, at DESC);
COMMENT ON TABLE quote IS 'What each source said of a coin''s price. Only ever added.';

CREATE TABLE balance_check (
    chain_id   bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    hour       timestamptz NOT NULL CHECK (date_trunc('hour', hour, 'UTC') = hour),
    block      bigint NOT NULL CHECK (block >= 0),
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, hour)
);
COMMENT ON TABLE balance_check IS 'The hours in which the coins at all deposit addresses were compared with what was found to arrive.';

CREATE TABLE sweep (
    sweep_id      uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    chain_id      bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    deposit_index bigint NOT NULL REFERENCES deposit_address,
    token         text COLLATE "C" NOT NULL CHECK (token ~ '^(1|254|8453):[a-z]{3,8}$'),
    -- What leaves the address, fees included.
    amount        numeric(78,0) NOT NULL CHECK (amount > 0),
    day           date NOT NULL,
    state         text COLLATE "C" NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'sent', 'done', 'failed')),
    tx_hash       bytea CHECK (octet_length(tx_hash) = 32),
    planned_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (chain_id, deposit_index, token, day),
    CHECK (state NOT IN ('done', 'failed') OR tx_hash IS NOT NULL)
);
CREATE UNIQUE INDEX sweep_one_open ON sweep (chain_id, deposit_index, token) WHERE state IN ('planned', 'sent');
COMMENT ON TABLE sweep IS 'Tokens that go from deposit addresses to the treasury, at most one a day for each address and token.';

CREATE TRIGGER chain_cursor_moves BEFORE UPDATE ON chain_cursor
    FOR EACH ROW EXECUTE FUNCTION chain_cursor_moves();
CREATE TRIGGER chain_event_keep BEFORE UPDATE OR DELETE ON chain_event FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER chain_event_keep_all BEFORE TRUNCATE ON chain_event
    FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER chain_event_gone_keep BEFORE UPDATE OR DELETE ON chain_event_gone
    FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER deposit_address_keep BEFORE UPDATE OR DELETE ON deposit_address
    FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER quote_keep BEFORE UPDATE ON quote FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER transfer_begins BEFORE INSERT ON transfer FOR EACH ROW EXECUTE FUNCTION transfer_moves();
CREATE TRIGGER transfer_moves BEFORE UPDATE ON transfer FOR EACH ROW EXECUTE FUNCTION transfer_moves();
CREATE TRIGGER transfer_keep BEFORE DELETE ON transfer FOR EACH ROW EXECUTE FUNCTION rows_are_kept();

GRANT SELECT, INSERT, UPDATE ON chain_cursor TO svc_settlement;
GRANT SELECT, INSERT (chain_id, block, was_hash, is_hash),
    UPDATE (lifted_at, lifted_by, reason, accepted) ON chain_halt TO svc_settlement;
GRANT SELECT, INSERT, DELETE ON chain_block TO svc_settlement;
GRANT SELECT, INSERT ON chain_event TO svc_settlement;
GRANT SELECT, INSERT (chain_id, tx_hash, place) ON chain_event_gone TO svc_settlement;
GRANT SELECT, INSERT (deposit_index, account_id, address) ON deposit_address TO svc_settlement;
GRANT SELECT, INSERT, UPDATE (amount, transfers) ON deposit_dust TO svc_settlement;
GRANT SELECT, INSERT, UPDATE ON transfer TO svc_settlement;
GRANT SELECT ON transfer_transition TO svc_settlement;
GRANT SELECT, INSERT (token, source, rate), DELETE ON quote TO svc_settlement;
GRANT SELECT, INSERT (chain_id, hour, block) ON balance_check TO svc_settlement;
GRANT SELECT, INSERT (chain_id, deposit_index, token, amount, day), UPDATE (state, tx_hash, amount) ON sweep TO svc_settlement;
