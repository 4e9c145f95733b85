-- A refund is asked for while nothing keeps it, and a day after the last one of its provider. The database's clock says
-- since when, and when it is due. One that was cancelled is over once the contracts know it.
CREATE OR REPLACE FUNCTION collateral_refund_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_blocker text;
BEGIN
    v_blocker := refund_blocker(NEW.provider_id);
    IF NEW.state <> 'asked' THEN
        RAISE EXCEPTION 'a refund begins as asked, not %', NEW.state USING ERRCODE = 'check_violation';
    ELSIF v_blocker <> '' THEN
        RAISE EXCEPTION 'a refund is not asked for beside %', v_blocker
            USING ERRCODE = 'check_violation', CONSTRAINT = 'collateral_refund_blocked', TABLE = 'collateral_refund';
    ELSIF EXISTS (SELECT FROM collateral_refund r JOIN collateral_refund_part p USING (refund_id)
        WHERE r.provider_id = NEW.provider_id AND r.state <> 'repaying' AND p.state NOT IN ('done', 'cancelled', 'reversed'))
    THEN
        RAISE EXCEPTION 'a refund is not asked for beside one that is being taken back'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'collateral_refund_blocked', TABLE = 'collateral_refund';
    END IF;
    NEW.asked_at := clock_timestamp();
    NEW.previous_at := (SELECT max(r.asked_at) FROM collateral_refund r WHERE r.provider_id = NEW.provider_id);
    NEW.due_at := NEW.asked_at + interval '7 days';
    RETURN NEW;
END $$;
