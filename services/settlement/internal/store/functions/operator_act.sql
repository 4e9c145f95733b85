-- operator_act makes an act of one row of a history. Reasons of halted chains and of transfers may have 2,000
-- characters. The act keeps the first 500, and the history has the rest.
CREATE OR REPLACE FUNCTION operator_act(p_table text, p_row jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = settlement, pg_temp AS $$
    SELECT jsonb_build_object('actor', a.actor, 'action', a.action, 'subject', a.subject, 'detail',
        jsonb_strip_nulls(a.detail || jsonb_build_object('reason', left(a.reason, 500))))
    FROM (
        SELECT p_row ->> 'actor' AS actor, p_row ->> 'cause' || '_payout' AS action, p_row ->> 'payout_id' AS subject,
            p_row ->> 'reason' AS reason, jsonb_build_object('provider_id', p.provider_id,
                'gross_usd', usd_text(p.gross_nano_usd), 'state', p_row ->> 'to_state') AS detail
        FROM payout p WHERE p_table = 'payout_change' AND p.payout_id = (p_row ->> 'payout_id')::uuid
        UNION ALL
        SELECT p_row ->> 'actor', p_row ->> 'cause' || '_penalty', p_row ->> 'penalty_id', p_row ->> 'reason',
            jsonb_build_object('provider_id', p.provider_id, 'state', p_row ->> 'to_state')
        FROM penalty p WHERE p_table = 'penalty_change' AND p.penalty_id = (p_row ->> 'penalty_id')::uuid
        UNION ALL
        -- What the call is for: a payout, a sweep, or another.
        SELECT p_row ->> 'actor', 'cancel_call', c.ref, p_row ->> 'reason', jsonb_build_object('chain_id', c.chain_id,
            'sender', '0x' || encode(c.sender, 'hex'), 'nonce', c.nonce, 'purpose', c.purpose)
        FROM chain_call c WHERE p_table = 'call_cancel' AND c.chain_id = (p_row ->> 'chain_id')::bigint
            AND c.sender = (p_row ->> 'sender')::bytea AND c.nonce = (p_row ->> 'nonce')::bigint
        UNION ALL
        SELECT p_row ->> 'actor', 'allow_day', p_row ->> 'day', p_row ->> 'reason', '{}'
        WHERE p_table = 'batch_allowance'
        UNION ALL
        SELECT p_row ->> 'actor', 'unblock_provider', p_row ->> 'provider_id', p_row ->> 'reason',
            jsonb_build_object('day', p_row ->> 'day', 'cause', p_row ->> 'cause')
        WHERE p_table = 'batch_unblock'
        UNION ALL
        SELECT p_row ->> 'actor', 'adopt', p_row ->> 'chain_id', p_row ->> 'reason',
            jsonb_build_object('adoption_id', p_row ->> 'adoption_id')
        WHERE p_table = 'adoption'
        UNION ALL
        SELECT p_row ->> 'lifted_by', 'lift_sending_halt', p_row ->> 'chain_id', p_row ->> 'reason',
            jsonb_build_object('cause', p_row ->> 'cause')
        WHERE p_table = 'sending_halt'
        UNION ALL
        SELECT p_row ->> 'lifted_by', 'lift_chain_halt', p_row ->> 'chain_id', p_row ->> 'reason',
            jsonb_build_object('block', p_row -> 'block', 'accepted', '0x' || substr(p_row ->> 'accepted', 3))
        WHERE p_table = 'chain_halt'
        UNION ALL
        -- The subject is the account if the transfer was matched, and the transfer if it was returned.
        SELECT p_row ->> 'ended_by',
            CASE WHEN p_row ->> 'ended' = 'matched' THEN 'match_transfer' ELSE 'return_transfer' END,
            CASE WHEN p_row ->> 'ended' = 'matched' THEN p_row ->> 'account_id'
                ELSE '0x' || substr(p_row ->> 'tx_hash', 3) END,
            p_row ->> 'end_reason', jsonb_build_object('chain_id', p_row -> 'chain_id', 'place', p_row -> 'place',
                'tx_hash', '0x' || substr(p_row ->> 'tx_hash', 3),
                'return_tx', '0x' || substr(p_row ->> 'return_tx', 3))
        WHERE p_table IN ('transfer', 'other_transfer')
        UNION ALL
        SELECT p_row ->> 'bank_actor', 'confirm_bank_refund', p_row ->> 'refund_id', NULL,
            jsonb_build_object('part_id', p_row ->> 'part_id', 'reference', p_row ->> 'bank_ref')
        WHERE p_table = 'collateral_refund_part'
    ) a
$$;
