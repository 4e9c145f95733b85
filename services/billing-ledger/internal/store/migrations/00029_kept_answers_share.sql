-- Accounts that never paid take at most half of the store of kept answers. An account
-- costs nothing, so 256 of them would fill the store for everybody.

-- +goose Up

-- The deposits that somebody paid for and that were not undone. A grant is none, nor
-- is what was given back. A card whose owner takes the money back freezes the
-- account, so that entry need not be looked for.
CREATE INDEX posting_paid_deposit ON posting (owner_id)
    WHERE account_kind = 'l:consumer:available' AND amount > 0
        AND entry_kind IN ('card_topup', 'deposit_usdc', 'deposit_native');
CREATE VIEW paid_deposit AS
    SELECT p.owner_id AS account_id, p.entry_id FROM posting p
    WHERE p.account_kind = 'l:consumer:available' AND p.amount > 0
        AND p.entry_kind IN ('card_topup', 'deposit_usdc', 'deposit_native')
        AND NOT EXISTS (SELECT FROM entry e WHERE e.reverses = p.entry_id);
GRANT SELECT ON paid_deposit TO svc_billing;

-- How much of an hour is of accounts that had not paid when it was kept.
ALTER TABLE kept.hour ADD COLUMN unpaid bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT hour_unpaid_check CHECK (unpaid BETWEEN 0 AND bytes);
UPDATE kept.hour h SET unpaid = coalesce((SELECT sum(t.bytes) FROM kept.tally t
    WHERE t.slot = h.slot AND NOT EXISTS (SELECT FROM paid_deposit d WHERE d.account_id = t.account_id)), 0);

-- has_paid reports whether an account ever had a deposit that somebody paid for.
-- +goose StatementBegin
CREATE FUNCTION kept.has_paid(p_account uuid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = billing, pg_temp SET jit = off SET enable_seqscan = off AS $$
    SELECT EXISTS (SELECT FROM paid_deposit WHERE account_id = p_account)
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION kept.has_paid FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kept.has_paid TO svc_billing;

-- refusal as before (00025), and half of all is out of reach of those who never paid.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION kept.refusal(p_account uuid, p_cost bigint, p_of_account bigint, p_in_all bigint, p_since bigint DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_since  bigint := coalesce(p_since, floor(extract(epoch FROM clock_timestamp()) / 3600) - 24);
    v_bytes  bigint;
    v_unpaid bigint;
BEGIN
    IF p_cost + coalesce((SELECT sum(t.bytes) FROM tally t JOIN hour h USING (slot)
        WHERE t.account_id = p_account AND h.hour >= v_since), 0) > p_of_account THEN
        RETURN 'account_full';
    END IF;
    SELECT coalesce(sum(bytes), 0), coalesce(sum(unpaid), 0) INTO v_bytes, v_unpaid FROM hour WHERE hour >= v_since;
    IF p_cost + v_bytes > p_in_all THEN
        RETURN 'store_full';
    ELSIF p_cost + v_unpaid > p_in_all / 2 AND NOT has_paid(p_account) THEN
        RETURN 'unpaid_full';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- keep as before (00025), and counts what is kept of those who never paid.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION kept.keep(p_account uuid, p_request uuid, p_sealed bytea, p_of_account bigint, p_in_all bigint,
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
    INSERT INTO hour AS h (slot, hour, bytes, unpaid) VALUES (v_slot, v_hour, v_cost, CASE WHEN has_paid(p_account) THEN 0 ELSE v_cost END)
        ON CONFLICT (slot) DO UPDATE SET bytes = h.bytes + excluded.bytes, unpaid = h.unpaid + excluded.unpaid;
    o_slot := v_slot;
END $$;
-- +goose StatementEnd
