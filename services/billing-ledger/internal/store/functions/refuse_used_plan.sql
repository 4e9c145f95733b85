CREATE OR REPLACE FUNCTION refuse_used_plan() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM account_plan WHERE plan_id = NEW.plan_id) THEN
        RAISE EXCEPTION 'plan % is in use and takes no further limit', NEW.plan_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
