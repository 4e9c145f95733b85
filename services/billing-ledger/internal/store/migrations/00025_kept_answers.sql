-- Kept answers leave the ledger's tables for a store of their own, which has a
-- quota of bytes for each account and one in all, and which forgets by the hour:
-- no row of an answer is ever deleted, its table is emptied whole.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    -- On a managed server somebody with more rights may have made it.
    IF to_regnamespace('kept') IS NULL THEN
        CREATE SCHEMA kept;
    END IF;
END $$;
-- +goose StatementEnd
GRANT USAGE ON SCHEMA kept TO svc_billing;

-- A ring of 26 slots, one for each hour: the hour under way, 24 that must be
-- remembered in full or in part, and one that is emptied for the next hour. All
-- tables are made here, because the service's login may make none.
CREATE TABLE kept.hour (
    slot  smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 25),
    -- Which hour since 1970 the slot is for; an empty slot has no row.
    hour  bigint NOT NULL CHECK (hour % 26 = slot),
    bytes bigint NOT NULL CHECK (bytes > 0)
) WITH (fillfactor = 50);

CREATE TABLE kept.answer (
    slot       smallint NOT NULL,
    request_id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- 1 MiB of answer, and what it takes to seal it.
    sealed     bytea NOT NULL CHECK (octet_length(sealed) BETWEEN 1 AND 1052672),
    PRIMARY KEY (slot, request_id)
) PARTITION BY LIST (slot);
-- What is sealed cannot be compressed.
ALTER TABLE kept.answer ALTER COLUMN sealed SET STORAGE EXTERNAL;

-- How much of an hour is an account's. It is emptied together with the answers
-- that it counts, so it cannot drift from them.
CREATE TABLE kept.tally (
    account_id uuid NOT NULL,
    slot       smallint NOT NULL,
    -- An account's quota holds for all hours together, and so for each.
    bytes      bigint NOT NULL CHECK (bytes BETWEEN 1 AND 67108864),
    PRIMARY KEY (account_id, slot)
) PARTITION BY LIST (slot);

-- Nothing but TRUNCATE frees anything here. A vacuum would find nothing to do,
-- and TRUNCATE would have to wait for it.
-- +goose StatementBegin
DO $$
BEGIN
    FOR n IN 0 .. 25 LOOP
        EXECUTE format('CREATE TABLE kept.answer_%s PARTITION OF kept.answer FOR VALUES IN (%s)
            WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false)', n, n);
        EXECUTE format('CREATE TABLE kept.tally_%s PARTITION OF kept.tally FOR VALUES IN (%s)
            WITH (autovacuum_enabled = false, fillfactor = 50)', n, n);
    END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT ON kept.hour, kept.answer, kept.tally TO svc_billing;

-- refusal is why an answer that costs so many bytes may not be kept beside those
-- of the hours since p_since, which is what a day needs unless it is given; or
-- NULL.
--
-- Plans here read few rows, whatever the planner believes of tables that nobody
-- analyzes: no sequential scan where there is an index, and no compiler.
-- +goose StatementBegin
CREATE FUNCTION kept.refusal(p_account uuid, p_cost bigint, p_of_account bigint, p_in_all bigint, p_since bigint DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_since bigint := coalesce(p_since, floor(extract(epoch FROM clock_timestamp()) / 3600) - 24);
BEGIN
    IF p_cost + coalesce((SELECT sum(t.bytes) FROM tally t JOIN hour h USING (slot)
        WHERE t.account_id = p_account AND h.hour >= v_since), 0) > p_of_account THEN
        RETURN 'account_full';
    ELSIF p_cost + coalesce((SELECT sum(bytes) FROM hour WHERE hour >= v_since), 0) > p_in_all THEN
        RETURN 'store_full';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- empty_slots empties the slots whose last answer is a day old in an hour, and
-- returns how many. A slot that is read for longer than p_patience, as a dump of
-- the database does, is left for the next time: everybody who comes later would
-- wait behind whoever waits for the reader.
-- +goose StatementBegin
CREATE FUNCTION kept.empty_slots(p_hour bigint, p_patience text) RETURNS integer
    LANGUAGE plpgsql SET search_path = kept, pg_temp AS $$
DECLARE
    v_patience text := current_setting('lock_timeout');
    v_slot     smallint;
    v_emptied  integer := 0;
BEGIN
    FOR v_slot IN SELECT slot FROM hour WHERE hour < p_hour - 24 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', p_patience, true);
            EXECUTE format('TRUNCATE answer_%s, tally_%s', v_slot, v_slot);
            PERFORM set_config('lock_timeout', v_patience, true);
            DELETE FROM hour WHERE slot = v_slot;
            v_emptied := v_emptied + 1;
        EXCEPTION WHEN lock_not_available THEN
            NULL; -- and lock_timeout is as it was
        END;
    END LOOP;
    RETURN v_emptied;
END $$;
-- +goose StatementEnd

-- keep keeps an answer, and says in which slot, or why not. It is the only way in.
-- Whoever keeps or empties holds one lock, so the quotas are exact whatever runs
-- at the same time; nobody who holds a table of this schema waits for that lock.
-- What could not be emptied counts, because it takes up disk. A row costs 256
-- bytes beside what is sealed.
--
-- Runs as the owner, because the application's role may neither write nor empty
-- these tables.
-- +goose StatementBegin
CREATE FUNCTION kept.keep(p_account uuid, p_request uuid, p_sealed bytea, p_of_account bigint, p_in_all bigint,
    OUT o_slot smallint, OUT o_refusal text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_cost bigint := octet_length(p_sealed) + 256;
    v_hour bigint;
    v_slot smallint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('kept.answer'));
    v_hour := floor(extract(epoch FROM clock_timestamp()) / 3600);
    v_slot := v_hour % 26;
    -- There is something to do only if nobody has swept for a while.
    PERFORM empty_slots(v_hour, '1ms');
    o_refusal := refusal(p_account, v_cost, p_of_account, p_in_all, 0);
    IF o_refusal IS NULL AND EXISTS (SELECT FROM hour WHERE slot = v_slot AND hour <> v_hour) THEN
        -- By an hour that is read, or by one to come if the clock was set back.
        o_refusal := 'slot_taken';
    END IF;
    IF o_refusal IS NOT NULL THEN
        RETURN;
    END IF;
    INSERT INTO answer (slot, request_id, account_id, sealed) VALUES (v_slot, p_request, p_account, p_sealed);
    INSERT INTO tally AS t (account_id, slot, bytes) VALUES (p_account, v_slot, v_cost)
        ON CONFLICT (account_id, slot) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    INSERT INTO hour AS h (slot, hour, bytes) VALUES (v_slot, v_hour, v_cost)
        ON CONFLICT (slot) DO UPDATE SET bytes = h.bytes + excluded.bytes;
    o_slot := v_slot;
END $$;
-- +goose StatementEnd

-- sweep empties the slots whose last answer is a day old, and returns how many.
-- +goose StatementBegin
CREATE FUNCTION kept.sweep() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_hour bigint := floor(extract(epoch FROM clock_timestamp()) / 3600);
BEGIN
    IF NOT EXISTS (SELECT FROM hour WHERE hour < v_hour - 24) THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('kept.answer'));
    RETURN empty_slots(v_hour, '50ms');
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION kept.keep, kept.sweep, kept.empty_slots, kept.refusal FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kept.keep, kept.sweep, kept.refusal TO svc_billing;

-- A claim names the slot that has its answer. Replicas of the release before keep
-- answers in the claim, and claims that they ended have them there until a day
-- has passed; a later migration drops the column.
ALTER TABLE idempotency_claim ADD COLUMN kept_slot smallint CHECK (kept_slot BETWEEN 0 AND 25);
ALTER TABLE idempotency_claim DROP CONSTRAINT idempotency_claim_answer;
ALTER TABLE idempotency_claim ADD CONSTRAINT idempotency_claim_answer
    CHECK ((state = 'answered') = (num_nonnulls(sealed, kept_slot) = 1) AND num_nonnulls(sealed, kept_slot) <= 1);
GRANT UPDATE (kept_slot) ON idempotency_claim TO svc_billing;

-- How many claims the keys of an account have together: an account has up to 100
-- keys at a time, and may revoke them and make others.
CREATE TABLE idempotency_account (
    account_id uuid PRIMARY KEY REFERENCES account,
    live       integer NOT NULL CHECK (live >= 0)
) WITH (fillfactor = 70);
INSERT INTO idempotency_account (account_id, live)
    SELECT k.account_id, count(*) FROM idempotency_claim c JOIN consumer_key k ON k.id = c.key_id GROUP BY k.account_id;
GRANT SELECT, INSERT, UPDATE (live) ON idempotency_account TO svc_billing;

-- count_claims as before (00014), and by account. Accounts are locked behind
-- keys, in the order of their ids.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_claims() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    -- No CHECK, because an account may have had more when the bound was made.
    c_most CONSTANT integer := 100000;
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE idempotency_quota q SET live = q.live + c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
        INSERT INTO idempotency_account AS a (account_id, live)
        SELECT k.account_id, count(*) FROM changed c JOIN consumer_key k ON k.id = c.key_id GROUP BY k.account_id ORDER BY k.account_id
        ON CONFLICT (account_id) DO UPDATE SET live = a.live + excluded.live;
        IF EXISTS (SELECT FROM idempotency_account WHERE live > c_most
            AND account_id IN (SELECT k.account_id FROM changed c JOIN consumer_key k ON k.id = c.key_id)) THEN
            RAISE EXCEPTION 'an account has at most % claims', c_most
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_account_bound', TABLE = 'idempotency_account';
        END IF;
    ELSE
        UPDATE idempotency_quota q SET live = q.live - c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
        PERFORM FROM idempotency_account
        WHERE account_id IN (SELECT k.account_id FROM changed c JOIN consumer_key k ON k.id = c.key_id) ORDER BY account_id FOR UPDATE;
        UPDATE idempotency_account a SET live = a.live - c.n
        FROM (SELECT k.account_id, count(*)::integer AS n FROM changed c JOIN consumer_key k ON k.id = c.key_id GROUP BY k.account_id) c
        WHERE a.account_id = c.account_id;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_claims() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE idempotency_quota q SET live = q.live + c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
    ELSE
        UPDATE idempotency_quota q SET live = q.live - c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TABLE idempotency_account;
ALTER TABLE idempotency_claim DISABLE TRIGGER idempotency_claim_ends_once;
ALTER TABLE idempotency_claim DROP CONSTRAINT idempotency_claim_answer;
UPDATE idempotency_claim SET state = 'not_kept' WHERE kept_slot IS NOT NULL;
ALTER TABLE idempotency_claim ENABLE TRIGGER idempotency_claim_ends_once;
ALTER TABLE idempotency_claim DROP COLUMN kept_slot;
ALTER TABLE idempotency_claim ADD CONSTRAINT idempotency_claim_answer CHECK ((state = 'answered') = (sealed IS NOT NULL));
DROP SCHEMA kept CASCADE;
