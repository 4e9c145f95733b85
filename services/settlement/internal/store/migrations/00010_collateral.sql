-- What stands behind providers: positions of the collateral contracts and payments by card, what penalties take of
-- them, and refunds.

-- +goose Up
-- Each final event of a contract counts once, and in its order. What a position is after an event stands with the event.
CREATE TABLE position_event (
    chain_id      bigint NOT NULL CHECK (chain_id IN (1, 254, 8453)),
    number        bigint NOT NULL CHECK (number > 0),
    tx            bytea NOT NULL CHECK (octet_length(tx) = 32),
    place         integer NOT NULL CHECK (place >= 0),
    kind          text COLLATE "C" NOT NULL CHECK (kind IN ('deposited', 'refund_requested', 'refund_cancelled',
        'exit_requested', 'exit_cancelled', 'refunded', 'slash_proposed', 'slash_appealed', 'slash_executed',
        'slash_reversed', 'slash_lapsed')),
    subject       bytea NOT NULL CHECK (octet_length(subject) = 32),
    depositor     bytea NOT NULL CHECK (octet_length(depositor) = 20),
    -- Null where the subject is no provider's id.
    provider_id   uuid CHECK (provider_id IS NULL OR uuid_send(provider_id) = substr(subject, 1, 16)),
    -- Null for an event that is about no penalty.
    part_id       bytea CHECK (octet_length(part_id) = 32),
    amount        numeric(78,0) NOT NULL CHECK (amount >= 0),
    at            timestamptz NOT NULL,
    free_after    numeric(78,0) NOT NULL CHECK (free_after >= 0),
    escrow_after  numeric(78,0) NOT NULL CHECK (escrow_after >= 0),
    -- What the books must be told, in their units: above zero came in, and below zero left.
    units         bigint NOT NULL,
    entry_id      uuid,
    PRIMARY KEY (chain_id, number),
    CONSTRAINT position_event_once UNIQUE (chain_id, tx, place),
    CONSTRAINT position_event_result UNIQUE (chain_id, number, subject, depositor, free_after, escrow_after),
    CONSTRAINT position_event_posted CHECK (entry_id IS NULL OR units <> 0),
    CONSTRAINT position_event_books CHECK (units = 0 OR provider_id IS NOT NULL)
);
COMMENT ON TABLE position_event IS 'Final events of the collateral contracts, those of subjects that are no providers too. Only ever added; a row changes once, when the books have it.';
CREATE INDEX position_event_unposted ON position_event (chain_id, number) WHERE units <> 0 AND entry_id IS NULL;
CREATE INDEX position_event_part ON position_event (part_id) WHERE part_id IS NOT NULL;

CREATE TABLE position (
    chain_id    bigint NOT NULL,
    subject     bytea NOT NULL,
    depositor   bytea NOT NULL,
    provider_id uuid CHECK (provider_id IS NULL OR uuid_send(provider_id) = substr(subject, 1, 16)),
    free        numeric(78,0) NOT NULL CHECK (free >= 0),
    escrow      numeric(78,0) NOT NULL CHECK (escrow >= 0),
    refund_at   timestamptz,
    exit_at     timestamptz,
    -- What the books have of it, and whether it is not dust.
    booked      bigint NOT NULL CHECK (booked >= 0),
    counted     boolean NOT NULL,
    -- The last event of it.
    number      bigint NOT NULL,
    PRIMARY KEY (chain_id, subject, depositor),
    CONSTRAINT position_follows FOREIGN KEY (chain_id, number, subject, depositor, free, escrow)
        REFERENCES position_event (chain_id, number, subject, depositor, free_after, escrow_after),
    CONSTRAINT position_dust CHECK (booked = 0 OR counted),
    CONSTRAINT position_empty CHECK (NOT counted OR free + escrow > 0)
);
COMMENT ON TABLE position IS 'What one depositor has put behind one provider on one chain, as the last final event left it.';
CREATE INDEX position_of_provider ON position (provider_id, chain_id, (free + escrow) DESC, depositor) WHERE counted;

CREATE TABLE position_cursor (
    chain_id bigint PRIMARY KEY CHECK (chain_id IN (1, 254, 8453)),
    -- All events up to this number count.
    number   bigint NOT NULL DEFAULT 0 CHECK (number >= 0),
    -- The time of a final block behind which nothing was missing.
    final_at timestamptz
);
COMMENT ON TABLE position_cursor IS 'How far positions follow the events of each chain. Its row is the lock under which they do.';

CREATE TABLE card_collateral (
    provider_id   uuid PRIMARY KEY REFERENCES provider,
    free_nano_usd bigint NOT NULL DEFAULT 0 CHECK (free_nano_usd >= 0),
    owed_nano_usd bigint NOT NULL DEFAULT 0 CHECK (owed_nano_usd >= 0),
    -- A payment went back to the card's owner, and that is not made good.
    reversed      boolean NOT NULL DEFAULT false,
    -- The ledger may say something else by now.
    stale         boolean NOT NULL DEFAULT true,
    -- Grows with each change, so that what was read of the ledger before a change is not written after it.
    version       bigint NOT NULL DEFAULT 1 CHECK (version > 0),
    looked_at     timestamptz
);
COMMENT ON TABLE card_collateral IS 'What the ledger has of a provider''s collateral by card, less what settlement is about to post.';
CREATE INDEX card_collateral_stale ON card_collateral (looked_at NULLS FIRST) WHERE stale;

CREATE TABLE card_change_cursor (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL DEFAULT 0 CHECK (number >= 0)
);
COMMENT ON TABLE card_change_cursor IS 'Up to which change of collateral by card the ledger was read.';
INSERT INTO card_change_cursor DEFAULT VALUES;

CREATE TABLE collateral_choice (
    provider_id uuid PRIMARY KEY REFERENCES provider,
    chain_id    bigint NOT NULL CHECK (chain_id IN (1, 254, 8453))
);
COMMENT ON TABLE collateral_choice IS 'The settlement chain that a provider chose. It counts while its collateral is confirmed there.';

CREATE TABLE provider_suspension (
    provider_id uuid NOT NULL,
    cause       text COLLATE "C" NOT NULL CHECK (cause IN ('refund', 'card', 'exit')),
    holds       boolean NOT NULL,
    revision    bigint NOT NULL DEFAULT 1 CHECK (revision > 0),
    told_at     timestamptz,
    tried_at    timestamptz,
    PRIMARY KEY (provider_id, cause)
);
COMMENT ON TABLE provider_suspension IS 'Causes for which providers are suspended, and whether the hub took them.';
CREATE INDEX provider_suspension_untold ON provider_suspension (tried_at NULLS FIRST, provider_id, cause)
    WHERE told_at IS NULL;

CREATE TABLE penalty_part (
    part_id       bytea PRIMARY KEY CHECK (octet_length(part_id) = 32),
    penalty_id    uuid NOT NULL REFERENCES penalty,
    provider_id   uuid NOT NULL REFERENCES provider,
    -- Null by card.
    chain_id      bigint CHECK (chain_id IN (1, 254, 8453)),
    depositor     bytea CHECK (octet_length(depositor) = 20),
    amount        numeric(78,0) CHECK (amount > 0),
    units         bigint CHECK (units > 0),
    nano_usd      bigint CHECK (nano_usd > 0 AND nano_usd % 10000000 = 0),
    state         text COLLATE "C" NOT NULL DEFAULT 'opened' CHECK (state IN
        ('opened', 'escrowed', 'appealed', 'executed', 'reversed', 'lapsed', 'missed')),
    appeal_until  timestamptz,
    lapses_at     timestamptz,
    action        text COLLATE "C" NOT NULL DEFAULT '' CHECK (action ~ '^[a-z_]{0,32}$'),
    attempt       integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    due_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The price of what was taken, fixed before it is posted.
    rate_nano_usd bigint CHECK (rate_nano_usd > 0),
    rate_source   text CHECK (octet_length(rate_source) BETWEEN 1 AND 64),
    rate_at       timestamptz,
    begun_entry   uuid,
    ended_entry   uuid,
    CONSTRAINT penalty_part_kind CHECK (CASE WHEN chain_id IS NULL
        THEN num_nonnulls(depositor, amount, units) = 0 AND nano_usd IS NOT NULL
        ELSE num_nulls(depositor, amount, units) = 0 AND nano_usd IS NULL END),
    CONSTRAINT penalty_part_once UNIQUE NULLS NOT DISTINCT (penalty_id, chain_id, depositor),
    CONSTRAINT penalty_part_clock CHECK ((appeal_until IS NULL) = (lapses_at IS NULL)
        AND (chain_id IS NULL OR state IN ('opened', 'missed') OR appeal_until IS NOT NULL)),
    CONSTRAINT penalty_part_rate CHECK (num_nulls(rate_nano_usd, rate_source, rate_at) IN (0, 3)),
    CONSTRAINT penalty_part_entries CHECK (CASE
        WHEN chain_id IS NULL THEN (begun_entry IS NULL) = (state IN ('opened', 'missed'))
            AND (ended_entry IS NULL) = (state IN ('opened', 'missed', 'escrowed'))
        ELSE begun_entry IS NULL AND (ended_entry IS NULL OR state = 'executed') END),
    CONSTRAINT penalty_part_by_card CHECK (chain_id IS NOT NULL OR state NOT IN ('appealed', 'lapsed'))
);
COMMENT ON TABLE penalty_part IS 'What a penalty takes of one position, or of what was paid by card. Amounts are fixed at the verdict.';
CREATE INDEX penalty_part_due ON penalty_part (due_at) WHERE state IN ('opened', 'escrowed', 'appealed');
CREATE INDEX penalty_part_unposted ON penalty_part (due_at) WHERE state = 'executed' AND ended_entry IS NULL;
CREATE INDEX penalty_part_of_provider ON penalty_part (provider_id) WHERE state IN ('opened', 'escrowed', 'appealed');

-- The table of internal/slash/state.go, as pairs.
CREATE TABLE penalty_part_transition (
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL CHECK (to_state <> from_state),
    PRIMARY KEY (from_state, to_state)
);
INSERT INTO penalty_part_transition (from_state, to_state) VALUES
    ('opened', 'escrowed'), ('opened', 'missed'), ('missed', 'escrowed'),
    ('escrowed', 'appealed'), ('escrowed', 'executed'), ('escrowed', 'reversed'), ('escrowed', 'lapsed'),
    ('appealed', 'executed'), ('appealed', 'reversed'), ('appealed', 'lapsed');

CREATE TABLE collateral_refund (
    refund_id   uuid PRIMARY KEY,
    provider_id uuid NOT NULL REFERENCES provider,
    state       text COLLATE "C" NOT NULL DEFAULT 'asked' CHECK (state IN ('asked', 'paying', 'paid', 'cancelled')),
    -- The trigger collateral_refund_begins sets both.
    asked_at    timestamptz NOT NULL,
    due_at      timestamptz NOT NULL,
    paying_at   timestamptz,
    ended_at    timestamptz,
    look_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT collateral_refund_waits CHECK (due_at - asked_at = interval '7 days'),
    CONSTRAINT collateral_refund_in_time CHECK (paying_at >= due_at),
    CONSTRAINT collateral_refund_times CHECK (CASE state
        WHEN 'asked' THEN num_nonnulls(paying_at, ended_at) = 0
        WHEN 'paying' THEN paying_at IS NOT NULL AND ended_at IS NULL
        WHEN 'paid' THEN num_nulls(paying_at, ended_at) = 0
        ELSE paying_at IS NULL AND ended_at IS NOT NULL END)
);
COMMENT ON TABLE collateral_refund IS 'Refunds of all collateral of a provider. A row that is paid or cancelled never changes.';
CREATE UNIQUE INDEX collateral_refund_one_open ON collateral_refund (provider_id) WHERE state IN ('asked', 'paying');
CREATE INDEX collateral_refund_by_provider ON collateral_refund (provider_id, asked_at);
CREATE INDEX collateral_refund_by_age ON collateral_refund (asked_at, refund_id);
CREATE INDEX collateral_refund_look ON collateral_refund (look_at) WHERE state IN ('asked', 'paying');

CREATE TABLE collateral_refund_part (
    part_id     uuid PRIMARY KEY,
    refund_id   uuid NOT NULL REFERENCES collateral_refund,
    -- Null by card.
    chain_id    bigint CHECK (chain_id IN (1, 254, 8453)),
    depositor   bytea CHECK (octet_length(depositor) = 20),
    checkout_id uuid,
    cents       bigint CHECK (cents > 0),
    state       text COLLATE "C" NOT NULL CHECK (state IN ('asked', 'requested', 'opened', 'posted', 'card', 'bank',
        'from_bank', 'taken_back', 'done', 'cancelled')),
    action      text COLLATE "C" NOT NULL DEFAULT '' CHECK (action ~ '^[a-z_]{0,32}$'),
    attempt     integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    bank_actor  text COLLATE "C" CHECK (bank_actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    bank_ref    text CHECK (char_length(bank_ref) BETWEEN 1 AND 200),
    asked_entry uuid,
    paid_entry  uuid,
    CONSTRAINT collateral_refund_part_kind CHECK (CASE WHEN chain_id IS NULL
        THEN num_nulls(checkout_id, cents) = 0 AND depositor IS NULL AND state NOT IN ('asked', 'requested')
        ELSE num_nonnulls(checkout_id, cents) = 0 AND depositor IS NOT NULL
            AND state IN ('asked', 'requested', 'done', 'cancelled') END),
    CONSTRAINT collateral_refund_part_once UNIQUE NULLS NOT DISTINCT (refund_id, chain_id, depositor, checkout_id),
    CONSTRAINT collateral_refund_part_entries CHECK (chain_id IS NOT NULL AND num_nonnulls(asked_entry, paid_entry) = 0
        OR chain_id IS NULL AND (asked_entry IS NULL) = (state IN ('opened', 'cancelled'))
            AND (paid_entry IS NOT NULL) = (state = 'done')),
    CONSTRAINT collateral_refund_part_bank CHECK (num_nulls(bank_actor, bank_ref) IN (0, 2)
        AND (bank_actor IS NULL OR state IN ('from_bank', 'done')) AND (state <> 'from_bank' OR bank_actor IS NOT NULL))
);
COMMENT ON TABLE collateral_refund_part IS 'What a refund pays to one depositor on a chain, or back for one payment by card.';
CREATE INDEX collateral_refund_part_due ON collateral_refund_part (due_at)
    WHERE state NOT IN ('done', 'cancelled', 'taken_back', 'bank');
CREATE INDEX collateral_refund_part_open ON collateral_refund_part (refund_id)
    WHERE state NOT IN ('done', 'cancelled', 'taken_back');

-- The tables of internal/refund/refund.go, as pairs.
CREATE TABLE collateral_refund_transition (
    of         text COLLATE "C" NOT NULL CHECK (of IN ('refund', 'part')),
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL CHECK (to_state <> from_state),
    PRIMARY KEY (of, from_state, to_state)
);
INSERT INTO collateral_refund_transition (of, from_state, to_state) VALUES
    ('refund', 'asked', 'paying'), ('refund', 'asked', 'cancelled'), ('refund', 'paying', 'paid'),
    ('part', 'asked', 'requested'), ('part', 'asked', 'done'), ('part', 'asked', 'cancelled'),
    ('part', 'requested', 'asked'), ('part', 'requested', 'done'), ('part', 'requested', 'cancelled'),
    ('part', 'opened', 'posted'), ('part', 'opened', 'cancelled'), ('part', 'posted', 'card'), ('part', 'posted', 'bank'),
    ('part', 'posted', 'taken_back'), ('part', 'card', 'done'), ('part', 'bank', 'from_bank'),
    ('part', 'from_bank', 'done');

-- An appeal of a depositor on the chain counts until the end of the chain's clock, which is the later one.
ALTER TABLE penalty ADD COLUMN appealed_on_chain boolean NOT NULL DEFAULT false;
ALTER TABLE penalty DROP CONSTRAINT penalty_appeal_in_time;

ALTER TABLE provider_collateral DROP CONSTRAINT provider_collateral_source_check;
ALTER TABLE provider_collateral ADD CONSTRAINT provider_collateral_source_check
    CHECK (source IN ('development', 'contract', 'card'));
COMMENT ON COLUMN provider_collateral.source IS 'What stands behind the fact: development, where nobody holds anything, a contract, or a card.';

CREATE TRIGGER position_event_moves BEFORE UPDATE ON position_event FOR EACH ROW EXECUTE FUNCTION position_event_moves();
CREATE TRIGGER position_moves BEFORE INSERT OR UPDATE ON position FOR EACH ROW EXECUTE FUNCTION position_moves();
CREATE TRIGGER position_cursor_moves BEFORE UPDATE ON position_cursor
    FOR EACH ROW EXECUTE FUNCTION position_cursor_moves();
CREATE TRIGGER card_collateral_moves BEFORE UPDATE ON card_collateral
    FOR EACH ROW EXECUTE FUNCTION card_collateral_moves();
CREATE TRIGGER card_change_cursor_moves BEFORE UPDATE ON card_change_cursor
    FOR EACH ROW EXECUTE FUNCTION position_cursor_moves();
CREATE TRIGGER provider_suspension_moves BEFORE UPDATE ON provider_suspension
    FOR EACH ROW EXECUTE FUNCTION provider_suspension_moves();
CREATE TRIGGER penalty_part_begins BEFORE INSERT ON penalty_part FOR EACH ROW EXECUTE FUNCTION penalty_part_begins();
CREATE TRIGGER penalty_part_moves BEFORE UPDATE ON penalty_part FOR EACH ROW EXECUTE FUNCTION penalty_part_moves();
CREATE TRIGGER collateral_refund_begins BEFORE INSERT ON collateral_refund
    FOR EACH ROW EXECUTE FUNCTION collateral_refund_begins();
CREATE TRIGGER collateral_refund_moves BEFORE UPDATE ON collateral_refund
    FOR EACH ROW EXECUTE FUNCTION collateral_refund_moves();
CREATE TRIGGER collateral_refund_part_moves BEFORE INSERT OR UPDATE ON collateral_refund_part
    FOR EACH ROW EXECUTE FUNCTION collateral_refund_part_moves();
-- Nothing is paid out while a refund is open.
CREATE TRIGGER payout_beside_refund BEFORE INSERT ON payout FOR EACH ROW EXECUTE FUNCTION payout_beside_refund();
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['position_event', 'position', 'position_cursor', 'card_collateral', 'card_change_cursor',
        'provider_suspension', 'penalty_part', 'collateral_refund', 'collateral_refund_part']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION rows_are_kept()',
            name || '_keep', name);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept()',
            name || '_keep_all', name);
    END LOOP;
END $$;
-- +goose StatementEnd

GRANT SELECT, INSERT (chain_id, number, tx, place, kind, subject, depositor, provider_id, part_id, amount, at, free_after,
    escrow_after, units), UPDATE (entry_id) ON position_event TO svc_settlement;
GRANT SELECT, INSERT, UPDATE (free, escrow, refund_at, exit_at, booked, counted, number) ON position TO svc_settlement;
GRANT SELECT, INSERT (chain_id), UPDATE (number, final_at) ON position_cursor TO svc_settlement;
GRANT SELECT, INSERT (provider_id), UPDATE (free_nano_usd, owed_nano_usd, reversed, stale, version, looked_at)
    ON card_collateral TO svc_settlement;
GRANT SELECT, UPDATE (number) ON card_change_cursor TO svc_settlement;
GRANT SELECT, INSERT, UPDATE (chain_id) ON collateral_choice TO svc_settlement;
GRANT SELECT, INSERT (provider_id, cause, holds), UPDATE (holds, revision, told_at, tried_at)
    ON provider_suspension TO svc_settlement;
GRANT SELECT, INSERT (part_id, penalty_id, provider_id, chain_id, depositor, amount, units, nano_usd),
    UPDATE (state, appeal_until, lapses_at, action, attempt, due_at, rate_nano_usd, rate_source, rate_at, begun_entry,
        ended_entry) ON penalty_part TO svc_settlement;
GRANT SELECT ON penalty_part_transition, collateral_refund_transition TO svc_settlement;
GRANT SELECT, INSERT (refund_id, provider_id), UPDATE (state, paying_at, ended_at, look_at)
    ON collateral_refund TO svc_settlement;
GRANT SELECT, INSERT (part_id, refund_id, chain_id, depositor, checkout_id, cents, state),
    UPDATE (state, action, attempt, due_at, bank_actor, bank_ref, asked_entry, paid_entry)
    ON collateral_refund_part TO svc_settlement;
GRANT UPDATE (appealed_on_chain) ON penalty TO svc_settlement;
