-- What operators did, each with the name of the operator who acted (operator:alice@id), in one list. Every act stands
-- in the history of what it changed, and triggers take it from there.

-- +goose Up
-- So that a settlement that works meanwhile adds to no history between the copy and the triggers. The order is that in
-- which the service writes to them in one transaction, so that neither waits for the other for ever.
LOCK TABLE sending_halt, adoption, transfer, other_transfer, chain_halt, call_cancel, payout_change, penalty_change,
    batch_allowance, batch_unblock, collateral_refund_part IN SHARE ROW EXCLUSIVE MODE;

CREATE TABLE operator_action (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text COLLATE "C" NOT NULL CHECK (actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    action  text COLLATE "C" NOT NULL CHECK (action IN ('request_payout', 'consent_payout', 'approve_payout',
        'cancel_payout', 'uphold_penalty', 'reverse_penalty', 'cancel_call', 'allow_day', 'unblock_provider', 'adopt',
        'lift_sending_halt', 'lift_chain_halt', 'match_transfer', 'return_transfer', 'confirm_bank_refund')),
    -- A payout, a penalty, a provider, an account, a refund, a transfer, a day, a chain, or what a call is for.
    subject text COLLATE "C" NOT NULL CHECK (octet_length(subject) BETWEEN 1 AND 256),
    detail  jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object' AND octet_length(detail::text) <= 4096)
);
COMMENT ON TABLE operator_action IS 'What operators did, with their names. Only ever added.';

-- Earlier acts keep the time that their history has. Two histories kept none: a refund by the bank takes the time when
-- its payment began (paying_at), and the end of a transfer takes the time when the transfer was found (found_at). The
-- detail of such an act says so (at_is).
INSERT INTO operator_action (at, actor, action, subject, detail)
    SELECT h.at, h.act ->> 'actor', h.act ->> 'action', h.act ->> 'subject', h.act -> 'detail'
    FROM (
        SELECT changed_at AS at, operator_act('payout_change', to_jsonb(h)) AS act FROM payout_change h
            WHERE actor ~ '^operator'
        UNION ALL SELECT changed_at, operator_act('penalty_change', to_jsonb(h)) FROM penalty_change h
            WHERE actor ~ '^operator'
        UNION ALL SELECT asked_at, operator_act('call_cancel', to_jsonb(h)) FROM call_cancel h
        UNION ALL SELECT at, operator_act('batch_allowance', to_jsonb(h)) FROM batch_allowance h
        UNION ALL SELECT at, operator_act('batch_unblock', to_jsonb(h)) FROM batch_unblock h WHERE actor ~ '^operator'
        UNION ALL SELECT at, operator_act('adoption', to_jsonb(h)) FROM adoption h
        UNION ALL SELECT lifted_at, operator_act('sending_halt', to_jsonb(h)) FROM sending_halt h
            WHERE lifted_by ~ '^operator'
        UNION ALL SELECT lifted_at, operator_act('chain_halt', to_jsonb(h)) FROM chain_halt h
            WHERE lifted_by IS NOT NULL
        UNION ALL SELECT found_at, jsonb_set(operator_act('transfer', to_jsonb(h)), '{detail,at_is}', '"found_at"')
            FROM transfer h
            WHERE ended IN ('matched', 'returned') AND ended_by ~ '^operator'
        UNION ALL SELECT found_at, jsonb_set(operator_act('other_transfer', to_jsonb(h)), '{detail,at_is}', '"found_at"')
            FROM other_transfer h WHERE ended_by IS NOT NULL
        UNION ALL SELECT r.paying_at,
                jsonb_set(operator_act('collateral_refund_part', to_jsonb(h)), '{detail,at_is}', '"paying_at"')
            FROM collateral_refund_part h JOIN collateral_refund r USING (refund_id) WHERE h.bank_actor IS NOT NULL
    ) h ORDER BY h.at;

-- The list of all, of one operator, and of one subject, each in its order.
CREATE INDEX operator_action_at ON operator_action (at, id);
CREATE INDEX operator_action_by ON operator_action (actor, at, id);
CREATE INDEX operator_action_of ON operator_action (subject, at, id);

CREATE TRIGGER operator_action_keep BEFORE UPDATE OR DELETE ON operator_action
    FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
CREATE TRIGGER operator_action_keep_all BEFORE TRUNCATE ON operator_action
    FOR EACH STATEMENT EXECUTE FUNCTION rows_are_kept();

CREATE TRIGGER payout_change_by_operator AFTER INSERT ON payout_change
    FOR EACH ROW WHEN (NEW.actor ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER penalty_change_by_operator AFTER INSERT ON penalty_change
    FOR EACH ROW WHEN (NEW.actor ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER call_cancel_by_operator AFTER INSERT ON call_cancel
    FOR EACH ROW EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER batch_allowance_by_operator AFTER INSERT ON batch_allowance
    FOR EACH ROW EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER batch_unblock_by_operator AFTER INSERT ON batch_unblock
    FOR EACH ROW WHEN (NEW.actor ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER adoption_by_operator AFTER INSERT ON adoption
    FOR EACH ROW EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER sending_halt_by_operator AFTER UPDATE OF lifted_by ON sending_halt
    FOR EACH ROW WHEN (OLD.lifted_by IS NULL AND NEW.lifted_by ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER chain_halt_by_operator AFTER UPDATE OF lifted_by ON chain_halt
    FOR EACH ROW WHEN (OLD.lifted_by IS NULL AND NEW.lifted_by ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER transfer_by_operator AFTER UPDATE OF ended ON transfer
    FOR EACH ROW WHEN (OLD.ended IS DISTINCT FROM NEW.ended AND NEW.ended IN ('matched', 'returned')
        AND NEW.ended_by ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER other_transfer_by_operator AFTER UPDATE OF ended_by ON other_transfer
    FOR EACH ROW WHEN (OLD.ended_by IS NULL AND NEW.ended_by ~ '^operator') EXECUTE FUNCTION enter_operator_action();
CREATE TRIGGER collateral_refund_part_by_operator AFTER UPDATE OF bank_actor ON collateral_refund_part
    FOR EACH ROW WHEN (OLD.bank_actor IS DISTINCT FROM NEW.bank_actor AND NEW.bank_actor IS NOT NULL)
    EXECUTE FUNCTION enter_operator_action();

GRANT SELECT, INSERT (actor, action, subject, detail) ON operator_action TO svc_settlement;
