-- What marks an account marks the provider of its user, too. The lock has a link of the provider
-- (mark_linked_provider) come before or after, so that one of the two sees the other. Signing in
-- does not wait for it.
CREATE OR REPLACE FUNCTION mark_own_provider() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    own uuid;
BEGIN
    SELECT u.provider_id INTO own FROM app_user u WHERE u.account_id = NEW.account_id FOR KEY SHARE;
    IF own IS NOT NULL THEN
        INSERT INTO provider_mark (provider_id, evidence, cause) VALUES (own, NEW.evidence, NEW.cause)
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
