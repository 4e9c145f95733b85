-- Nothing is paid out while a refund of the provider's collateral is open, but for what was lost and is adopted: it was
-- asked for before, and the refund is not paid beside it.
CREATE OR REPLACE FUNCTION payout_beside_refund() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    PERFORM FROM provider WHERE provider_id = NEW.provider_id FOR UPDATE;
    IF EXISTS (SELECT FROM collateral_refund WHERE provider_id = NEW.provider_id AND state IN ('asked', 'paying'))
        AND NOT EXISTS (SELECT FROM adopted_payout WHERE payout_id = NEW.payout_id)
    THEN
        RAISE EXCEPTION 'nothing is paid out beside a refund'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payout_beside_refund', TABLE = 'payout';
    END IF;
    RETURN NEW;
END $$;
