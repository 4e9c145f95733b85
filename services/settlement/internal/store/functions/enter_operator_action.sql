-- What an operator did stands in the history of what it changed. From there it goes into the list of all acts.
CREATE OR REPLACE FUNCTION enter_operator_action() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_act CONSTANT jsonb := operator_act(TG_TABLE_NAME, to_jsonb(NEW));
BEGIN
    INSERT INTO operator_action (actor, action, subject, detail)
    VALUES (v_act ->> 'actor', v_act ->> 'action', v_act ->> 'subject', v_act -> 'detail');
    RETURN NULL;
END $$;
