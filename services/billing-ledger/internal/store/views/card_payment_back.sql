-- What of each card payment went back: reversed by disputes that were not won and by others'
-- refunds, and refunded because it was asked for here, of which asked has not ended. Both
-- may be more than the payment together where a card's owner disputes what was refunded.
CREATE OR REPLACE VIEW card_payment_back AS
    SELECT p.id AS payment_id, p.checkout_id, c.provider_id, p.cents,
        (SELECT coalesce(sum(r.cents), 0)::bigint FROM card_reversal r WHERE r.payment_id = p.id
            AND NOT EXISTS (SELECT FROM card_dispute_won w WHERE w.reversal_id = r.id)) AS reversed,
        (SELECT coalesce(sum(f.cents), 0)::bigint FROM card_refund f WHERE f.payment_id = p.id
            AND f.state <> 'reversed') AS refunded,
        (SELECT coalesce(sum(f.cents), 0)::bigint FROM card_refund f WHERE f.payment_id = p.id
            AND f.state = 'asked') AS asked,
        c.purpose, c.account_id, c.processor
    FROM card_payment p JOIN checkout c ON c.id = p.checkout_id AND c.state = 'paid';

GRANT SELECT ON card_payment_back TO svc_billing;
