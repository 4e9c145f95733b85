-- What consumers see of their deposits: how far a chain is, and tokens that arrive and are credited to nobody.

-- +goose Up
-- The head and the final block as the last look at the chain saw them. Nothing rests on either.
ALTER TABLE chain_cursor ADD COLUMN head bigint CHECK (head >= 0);
ALTER TABLE chain_cursor ADD COLUMN final_block bigint CHECK (final_block >= 0);
COMMENT ON COLUMN chain_cursor.head IS 'The highest block that any RPC had at the last look. It is for people to see.';

CREATE TABLE other_transfer (
    chain_id      bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    tx_hash       bytea NOT NULL CHECK (octet_length(tx_hash) = 32),
    place         bigint NOT NULL CHECK (place BETWEEN 0 AND 4294967295),
    block         bigint NOT NULL CHECK (block >= 0),
    block_hash    bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    at            timestamptz NOT NULL,
    contract      bytea NOT NULL CHECK (octet_length(contract) = 20),
    symbol        text COLLATE "C" NOT NULL CHECK (length(symbol) BETWEEN 1 AND 16),
    decimals      integer NOT NULL CHECK (decimals BETWEEN 0 AND 36),
    sender        bytea NOT NULL CHECK (octet_length(sender) = 20),
    deposit_index bigint NOT NULL REFERENCES deposit_address,
    amount        numeric(78,0) NOT NULL CHECK (amount > 0),
    state         text COLLATE "C" NOT NULL CHECK (state IN ('unmatched', 'returned', 'dropped')),
    return_tx     bytea CHECK (octet_length(return_tx) = 32),
    ended_by      text COLLATE "C" CHECK (ended_by ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    end_reason    text COLLATE "C" CHECK (length(end_reason) BETWEEN 1 AND 2000),
    found_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, tx_hash, place),
    CONSTRAINT other_transfer_returned CHECK (
        (state = 'returned') = (return_tx IS NOT NULL)
        AND (state = 'returned') = (ended_by IS NOT NULL) AND (state = 'returned') = (end_reason IS NOT NULL))
);
COMMENT ON TABLE other_transfer IS 'Transfers of known other tokens to deposit addresses. They are credited to nobody and are not in the books; an operator returns them.';
CREATE INDEX other_transfer_of_address ON other_transfer (deposit_index, found_at DESC);
CREATE INDEX other_transfer_by_block ON other_transfer (chain_id, block);
CREATE INDEX other_transfer_in_state ON other_transfer (state, found_at DESC);
CREATE TRIGGER other_transfer_begins BEFORE INSERT ON other_transfer
    FOR EACH ROW EXECUTE FUNCTION other_transfer_moves();
CREATE TRIGGER other_transfer_moves BEFORE UPDATE ON other_transfer
    FOR EACH ROW EXECUTE FUNCTION other_transfer_moves();
CREATE TRIGGER other_transfer_keep BEFORE DELETE ON other_transfer FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
GRANT SELECT, INSERT, UPDATE ON other_transfer TO svc_settlement;

-- Lists of an account and of a state read as many rows as they show.
CREATE INDEX transfer_matched ON transfer (account_id, found_at DESC) WHERE ended = 'matched';
CREATE INDEX transfer_in_state ON transfer (state, found_at DESC);
