-- A provider bears the marks of its user's account. This statement sees what was marked before
-- the user's row was locked; what is marked later, mark_own_provider adds. Marks are inserted in the
-- order in which a hub's are, so that neither waits for the other in a circle.
CREATE OR REPLACE FUNCTION mark_linked_provider() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    INSERT INTO provider_mark (provider_id, evidence, cause)
        SELECT NEW.provider_id, m.evidence, m.cause FROM account_mark m WHERE m.account_id = NEW.account_id
        ORDER BY m.evidence, m.cause
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
