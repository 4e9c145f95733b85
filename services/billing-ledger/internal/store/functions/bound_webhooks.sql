-- An account has at most 10 endpoints. One is added at a time.
CREATE OR REPLACE FUNCTION bound_webhooks() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('webhook'), hashtext(NEW.account_id::text));
    IF (SELECT count(*) FROM webhook w WHERE w.account_id = NEW.account_id) >= 10 THEN
        RAISE EXCEPTION 'an account has at most 10 webhooks'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'webhook_bound';
    END IF;
    RETURN NEW;
END $$;
