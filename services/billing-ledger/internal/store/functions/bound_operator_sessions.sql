-- Whoever adds a session has locked its operator.
CREATE OR REPLACE FUNCTION bound_operator_sessions() RETURNS trigger LANGUAGE plpgsql
SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM operator_session WHERE operator_id = NEW.operator_id) >= 32 THEN
        RAISE EXCEPTION 'an operator has at most 32 sessions' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
