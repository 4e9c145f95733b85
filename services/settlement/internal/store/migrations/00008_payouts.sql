-- The transactions that settlement sends, payouts, and earnings that become credit.

-- +goose Up
-- One row for each address that sends on a chain. next is the nonce of its next call.
CREATE TABLE sender (
    chain_id bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    address  bytea NOT NULL CHECK (octet_length(address) = 20),
    key      text COLLATE "C" NOT NULL
        CHECK (key IN ('payout', 'operator', 'slasher', 'arbiter', 'gas') OR key ~ '^deposit/(0|[1-9][0-9]{0,9})$'),
    next     bigint NOT NULL DEFAULT 0 CHECK (next >= 0),
    PRIMARY KEY (chain_id, address)
);
COMMENT ON TABLE sender IS 'The addresses that send transactions, and the nonce of the next one. Its row is the lock under which nonces are given.';

-- A nonce has one content for ever.
CREATE TABLE chain_call (
    chain_id   bigint NOT NULL,
    sender     bytea NOT NULL,
    nonce      bigint NOT NULL CHECK (nonce >= 0),
    purpose    text COLLATE "C" NOT NULL CHECK (purpose ~ '^[a-z_]{1,32}$'),
    ref        text COLLATE "C" NOT NULL CHECK (octet_length(ref) BETWEEN 1 AND 128),
    recipient  bytea NOT NULL CHECK (octet_length(recipient) = 20),
    value      numeric(78,0) NOT NULL CHECK (value >= 0),
    data       bytea NOT NULL CHECK (octet_length(data) <= 4096),
    gas_limit  bigint NOT NULL CHECK (gas_limit BETWEEN 21000 AND 10000000),
    call_hash  bytea NOT NULL CHECK (octet_length(call_hash) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, sender, nonce),
    FOREIGN KEY (chain_id, sender) REFERENCES sender,
    CONSTRAINT chain_call_once UNIQUE (purpose, ref),
    CONSTRAINT chain_call_content UNIQUE (chain_id, sender, nonce, call_hash)
);
COMMENT ON TABLE chain_call IS 'What is sent with a nonce: decided once, never changed. Of what it is for there is one call.';

-- Bytes are stored before they are sent. call_hash is null for the transaction that cancels its nonce.
CREATE TABLE signed_tx (
    hash        bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    chain_id    bigint NOT NULL,
    sender      bytea NOT NULL,
    nonce       bigint NOT NULL,
    try         smallint NOT NULL CHECK (try BETWEEN 0 AND 31),
    call_hash   bytea,
    raw         bytea NOT NULL CHECK (octet_length(raw) BETWEEN 1 AND 8192),
    max_fee     numeric(78,0) NOT NULL CHECK (max_fee > 0),
    tip         numeric(78,0) NOT NULL CHECK (tip >= 0 AND tip <= max_fee),
    signed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (chain_id, sender, nonce) REFERENCES chain_call,
    -- Not checked where call_hash is null.
    CONSTRAINT signed_tx_content FOREIGN KEY (chain_id, sender, nonce, call_hash)
        REFERENCES chain_call (chain_id, sender, nonce, call_hash),
    -- Of two processes that sign at once, one stores its bytes.
    CONSTRAINT signed_tx_try UNIQUE (chain_id, sender, nonce, try),
    CONSTRAINT signed_tx_of_call UNIQUE (hash, chain_id, sender, nonce)
);
COMMENT ON TABLE signed_tx IS 'Signed transactions, stored before they are broadcast. Those of one nonce differ in their fees alone, but for the cancel.';

CREATE TABLE call_cancel (
    chain_id bigint NOT NULL,
    sender   bytea NOT NULL,
    nonce    bigint NOT NULL,
    actor    text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason   text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, sender, nonce),
    FOREIGN KEY (chain_id, sender, nonce) REFERENCES chain_call
);
COMMENT ON TABLE call_cancel IS 'Calls in whose place an operator wants nothing to happen. The chain decides which of the two is mined.';

CREATE TABLE call_end (
    chain_id     bigint NOT NULL,
    sender       bytea NOT NULL,
    nonce        bigint NOT NULL,
    outcome      text COLLATE "C" NOT NULL CHECK (outcome IN ('succeeded', 'reverted', 'cancelled')),
    hash         bytea NOT NULL,
    block        bigint NOT NULL CHECK (block >= 0),
    block_hash   bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    cost         numeric(78,0) NOT NULL CHECK (cost >= 0),
    ended_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, sender, nonce),
    FOREIGN KEY (hash, chain_id, sender, nonce) REFERENCES signed_tx (hash, chain_id, sender, nonce)
);
COMMENT ON TABLE call_end IS 'What became of a call, from the receipt in a final block. cost is in wei: gas, and on 8453 the fee of chain 1.';
CREATE INDEX call_end_late ON call_end (chain_id, ended_at);

-- The books value gas at a quote that is fixed before it is posted.
CREATE TABLE call_gas (
    chain_id      bigint NOT NULL,
    sender        bytea NOT NULL,
    nonce         bigint NOT NULL,
    units         bigint NOT NULL CHECK (units > 0),
    rate_nano_usd bigint NOT NULL CHECK (rate_nano_usd > 0),
    rate_source   text NOT NULL CHECK (octet_length(rate_source) BETWEEN 1 AND 64),
    rate_at       timestamptz NOT NULL,
    -- It is worth less than half a nano-dollar, so nothing is posted.
    worthless     boolean NOT NULL,
    entry_id      uuid,
    PRIMARY KEY (chain_id, sender, nonce),
    FOREIGN KEY (chain_id, sender, nonce) REFERENCES call_end,
    CONSTRAINT call_gas_worthless CHECK (NOT worthless OR entry_id IS NULL)
);
COMMENT ON TABLE call_gas IS 'What the books are told of the cost of a call, and the entry once they are.';
CREATE INDEX call_gas_unposted ON call_gas (chain_id) WHERE entry_id IS NULL AND NOT worthless;

-- Nothing new is sent on a chain with an open halt.
CREATE TABLE sending_halt (
    chain_id  bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    cause     text COLLATE "C" NOT NULL
        CHECK (cause IN ('nonce_ahead', 'unknown_transaction', 'final_reorged', 'signer_refuses', 'operator')),
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    detail    text NOT NULL CHECK (char_length(detail) BETWEEN 1 AND 500),
    lifted_at timestamptz,
    lifted_by text COLLATE "C" CHECK (lifted_by ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason    text CHECK (char_length(reason) BETWEEN 1 AND 500),
    PRIMARY KEY (chain_id, cause, since),
    CONSTRAINT sending_halt_lifted CHECK (num_nulls(lifted_at, lifted_by, reason) IN (0, 3))
);
COMMENT ON TABLE sending_halt IS 'Why nothing new is sent on a chain. An operator lifts a halt with a reason; where its cause stands it comes again.';
CREATE UNIQUE INDEX sending_halt_open ON sending_halt (chain_id, cause) WHERE lifted_at IS NULL;

CREATE TABLE payout (
    payout_id       uuid PRIMARY KEY,
    provider_id     uuid NOT NULL REFERENCES provider,
    chain_id        bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    gross_nano_usd  bigint NOT NULL CHECK (gross_nano_usd >= 10000000000 AND gross_nano_usd % 1000 = 0),
    fee_nano_usd    bigint NOT NULL CHECK (fee_nano_usd = 1000000000),
    address         bytea NOT NULL
        CHECK (octet_length(address) = 20 AND address <> '\x0000000000000000000000000000000000000000'),
    state           text COLLATE "C" NOT NULL DEFAULT 'requested' CHECK (state IN
        ('requested', 'approved', 'signing', 'submitted', 'confirmed', 'failed', 'cancelled')),
    revision        bigint NOT NULL DEFAULT 1 CHECK (revision > 0),
    -- The trigger payout_begins sets it.
    requested_at    timestamptz NOT NULL,
    -- The payout of the same provider and chain before this one.
    previous_at     timestamptz,
    -- Post 16, and Post 17 or 18.
    reserved_entry  uuid,
    final_entry     uuid,
    -- How a payout that was not sent is going to end, before its money is given back.
    ends_as         text COLLATE "C" CHECK (ends_as IN ('cancelled', 'failed')),
    ends_reason     text CHECK (char_length(ends_reason) BETWEEN 1 AND 500),
    -- What is sent, fixed when the nonce is.
    amount          numeric(78,0) CHECK (amount > 0),
    rate_nano_usd   bigint CHECK (rate_nano_usd > 0),
    rate_source     text CHECK (octet_length(rate_source) BETWEEN 1 AND 64),
    rate_at         timestamptz,
    -- What a look found, for people.
    waiting         text COLLATE "C" NOT NULL DEFAULT '' CHECK (waiting ~ '^[a-z_]{0,64}$'),
    screened        text CHECK (char_length(screened) <= 200),
    looked_at       timestamptz,
    changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT payout_reserved CHECK (reserved_entry IS NOT NULL OR state = 'requested'
        OR state = 'failed' AND final_entry IS NULL),
    CONSTRAINT payout_ended CHECK (CASE
        WHEN state IN ('confirmed', 'cancelled') THEN final_entry IS NOT NULL
        WHEN state = 'failed' THEN (final_entry IS NULL) = (reserved_entry IS NULL)
        ELSE final_entry IS NULL END),
    CONSTRAINT payout_ends CHECK (CASE
        WHEN ends_as IS NULL THEN ends_reason IS NULL AND state <> 'cancelled'
        ELSE ends_reason IS NOT NULL AND state IN ('requested', 'approved', ends_as) END),
    CONSTRAINT payout_amount CHECK ((amount IS NOT NULL) = (state IN ('signing', 'submitted', 'confirmed')
        OR state = 'failed' AND ends_as IS NULL AND reserved_entry IS NOT NULL)),
    CONSTRAINT payout_rate CHECK (num_nulls(rate_nano_usd, rate_source, rate_at)
        = CASE WHEN chain_id = 254 AND amount IS NOT NULL THEN 0 ELSE 3 END),
    -- One an hour: each payout follows one that is at least an hour older, and of two none
    -- follows the same one. So no two hours of a provider and chain overlap.
    CONSTRAINT payout_hour CHECK (requested_at - previous_at >= interval '1 hour'),
    CONSTRAINT payout_at UNIQUE (provider_id, chain_id, requested_at),
    CONSTRAINT payout_follows FOREIGN KEY (provider_id, chain_id, previous_at)
        REFERENCES payout (provider_id, chain_id, requested_at),
    CONSTRAINT payout_follows_one UNIQUE NULLS NOT DISTINCT (provider_id, chain_id, previous_at)
);
COMMENT ON TABLE payout IS 'Payouts of providers. A row that is confirmed, failed or cancelled never changes.';
CREATE UNIQUE INDEX payout_one_open ON payout (provider_id)
    WHERE state IN ('requested', 'approved', 'signing', 'submitted');
CREATE INDEX payout_open ON payout (looked_at NULLS FIRST, payout_id)
    WHERE state IN ('requested', 'approved', 'signing', 'submitted');
CREATE INDEX payout_by_provider ON payout (provider_id, requested_at, payout_id);
CREATE INDEX payout_by_age ON payout (requested_at, payout_id);
CREATE INDEX payout_by_state ON payout (state, requested_at, payout_id);

-- The table of internal/payout/state.go, as pairs.
CREATE TABLE payout_transition (
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL CHECK (to_state <> from_state),
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO payout_transition (from_state, to_state) VALUES
    ('requested', 'approved'), ('requested', 'cancelled'), ('requested', 'failed'),
    ('approved', 'signing'), ('approved', 'cancelled'), ('approved', 'failed'),
    ('signing', 'submitted'), ('submitted', 'confirmed'), ('submitted', 'failed');

CREATE TABLE payout_change (
    payout_id  uuid NOT NULL REFERENCES payout,
    revision   bigint NOT NULL CHECK (revision > 0),
    -- Empty for the request.
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL,
    cause      text COLLATE "C" NOT NULL CHECK (cause IN ('request', 'reserve', 'refuse', 'consent', 'approve', 'cancel',
        'reject', 'end', 'send', 'submit', 'confirm', 'fail')),
    actor      text COLLATE "C" NOT NULL
        CHECK (actor = 'platform' OR actor ~ '^(operator(:[a-z0-9._@-]{1,64})?|user:[0-9a-f-]{36}|wallet:0x[0-9a-fA-F]{40})$'),
    reason     text NOT NULL CHECK (char_length(reason) <= 500),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (payout_id, revision),
    CONSTRAINT payout_change_request CHECK ((revision = 1) = (cause = 'request') AND (revision = 1) = (from_state = '')),
    CONSTRAINT payout_change_actor CHECK (CASE cause
        WHEN 'request' THEN actor ~ '^(user|wallet)'
        WHEN 'consent' THEN actor ~ '^operator' AND reason <> ''
        WHEN 'approve' THEN actor = 'platform' OR actor ~ '^operator' AND reason <> ''
        WHEN 'cancel' THEN actor ~ '^(user|wallet|operator)' AND reason <> ''
        ELSE actor = 'platform' END)
);
COMMENT ON TABLE payout_change IS 'Who moved a payout, when and why; one row for each revision. Only ever added.';

-- Operators who consent. Above $10,000 there are two of different names.
CREATE TABLE payout_approval (
    payout_id uuid NOT NULL REFERENCES payout,
    actor     text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (payout_id, actor)
);
COMMENT ON TABLE payout_approval IS 'Operators who approve of a payout. Only ever added.';

CREATE TABLE payout_day (
    day      date PRIMARY KEY,
    nano_usd bigint NOT NULL CHECK (nano_usd >= 0)
);
COMMENT ON TABLE payout_day IS 'What was approved on a day (UTC) without a person.';

CREATE TABLE conversion (
    conversion_id uuid PRIMARY KEY,
    provider_id   uuid NOT NULL REFERENCES provider,
    account_id    uuid NOT NULL,
    nano_usd      bigint NOT NULL CHECK (nano_usd > 0),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Post 19, or why the books refused it.
    entry_id      uuid,
    refusal       text COLLATE "C" CHECK (refusal ~ '^[a-z_]{1,64}$'),
    CONSTRAINT conversion_ends_once CHECK (num_nonnulls(entry_id, refusal) <= 1)
);
COMMENT ON TABLE conversion IS 'Earnings that become credit of the same user. A row changes once: it is posted or refused.';
CREATE INDEX conversion_open ON conversion (requested_at) WHERE entry_id IS NULL AND refusal IS NULL;

-- What a caller asked for under an Idempotency-Key.
CREATE TABLE operation (
    provider_id uuid NOT NULL,
    kind        text COLLATE "C" NOT NULL CHECK (kind ~ '^[a-z_]{1,32}$'),
    key         text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    sha256      bytea NOT NULL CHECK (octet_length(sha256) = 32),
    result_id   uuid NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider_id, kind, key)
);
COMMENT ON TABLE operation IS 'What was made for an Idempotency-Key, so that a repeat returns it. Only ever added.';

CREATE TRIGGER sender_moves BEFORE UPDATE ON sender FOR EACH ROW EXECUTE FUNCTION sender_moves();
CREATE CONSTRAINT TRIGGER sender_gapless AFTER INSERT OR UPDATE ON sender
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sender_gapless();
CREATE TRIGGER chain_call_begins BEFORE INSERT ON chain_call FOR EACH ROW EXECUTE FUNCTION chain_call_begins();
CREATE CONSTRAINT TRIGGER chain_call_fits AFTER INSERT ON chain_call
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain_call_fits();
CREATE TRIGGER call_end_fits BEFORE INSERT ON call_end FOR EACH ROW EXECUTE FUNCTION call_end_fits();
CREATE TRIGGER call_gas_moves BEFORE UPDATE ON call_gas FOR EACH ROW EXECUTE FUNCTION call_gas_moves();
CREATE TRIGGER sending_halt_moves BEFORE UPDATE ON sending_halt FOR EACH ROW EXECUTE FUNCTION sending_halt_moves();
CREATE TRIGGER payout_begins BEFORE INSERT ON payout FOR EACH ROW EXECUTE FUNCTION payout_begins();
CREATE TRIGGER payout_moves BEFORE UPDATE ON payout FOR EACH ROW EXECUTE FUNCTION payout_moves();
CREATE CONSTRAINT TRIGGER payout_entered AFTER INSERT OR UPDATE ON payout
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION payout_entered();
CREATE CONSTRAINT TRIGGER payout_change_follows AFTER INSERT ON payout_change
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION payout_change_follows();
CREATE TRIGGER conversion_moves BEFORE UPDATE ON conversion FOR EACH ROW EXECUTE FUNCTION conversion_moves();

-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['chain_call', 'signed_tx', 'call_cancel', 'call_end', 'payout_change', 'payout_approval',
        'operation']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION rows_are_kept()',
            name || '_keep', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['sender', 'call_gas', 'sending_halt', 'payout', 'conversion'] LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION rows_are_kept()',
            name || '_keep', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['sender', 'chain_call', 'signed_tx', 'call_cancel', 'call_end', 'call_gas', 'sending_halt',
        'payout', 'payout_change', 'payout_approval', 'conversion', 'operation']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept()',
            name || '_keep_all', name);
    END LOOP;
END $$;
-- +goose StatementEnd

GRANT SELECT, INSERT (chain_id, address, key), UPDATE (next) ON sender TO svc_settlement;
GRANT SELECT, INSERT (chain_id, sender, nonce, purpose, ref, recipient, value, data, gas_limit, call_hash)
    ON chain_call TO svc_settlement;
GRANT SELECT, INSERT (hash, chain_id, sender, nonce, try, call_hash, raw, max_fee, tip) ON signed_tx TO svc_settlement;
GRANT SELECT, INSERT (chain_id, sender, nonce, actor, reason) ON call_cancel TO svc_settlement;
GRANT SELECT, INSERT (chain_id, sender, nonce, outcome, hash, block, block_hash, cost) ON call_end TO svc_settlement;
GRANT SELECT, INSERT (chain_id, sender, nonce, units, rate_nano_usd, rate_source, rate_at, worthless),
    UPDATE (entry_id) ON call_gas TO svc_settlement;
GRANT SELECT, INSERT (chain_id, cause, detail), UPDATE (lifted_at, lifted_by, reason) ON sending_halt TO svc_settlement;
GRANT SELECT, INSERT (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address, previous_at),
    UPDATE (state, revision, reserved_entry, final_entry, ends_as, ends_reason, amount, rate_nano_usd, rate_source,
        rate_at, waiting, screened, looked_at) ON payout TO svc_settlement;
GRANT SELECT ON payout_transition TO svc_settlement;
GRANT SELECT, INSERT (payout_id, revision, from_state, to_state, cause, actor, reason) ON payout_change TO svc_settlement;
GRANT SELECT, INSERT (payout_id, actor) ON payout_approval TO svc_settlement;
GRANT SELECT, INSERT, UPDATE (nano_usd) ON payout_day TO svc_settlement;
GRANT SELECT, INSERT (conversion_id, provider_id, account_id, nano_usd), UPDATE (entry_id, refusal)
    ON conversion TO svc_settlement;
GRANT SELECT, INSERT (provider_id, kind, key, sha256, result_id) ON operation TO svc_settlement;
