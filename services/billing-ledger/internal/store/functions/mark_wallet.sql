-- A wallet marks the account of its user, who is locked. Ending the identity does not take the mark
-- away. Proving a wallet costs nothing, so an account is marked by at most 64, ever. One more is
-- refused and not passed over: else it would sign in without a mark. A link may be refused; a
-- payment may not.
CREATE OR REPLACE FUNCTION mark_wallet() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    owned uuid;
BEGIN
    SELECT u.account_id INTO owned FROM app_user u WHERE u.id = NEW.user_id;
    INSERT INTO account_mark (account_id, evidence, cause) VALUES (owned, NEW.evidence, 'wallet')
        ON CONFLICT DO NOTHING;
    IF (SELECT count(*) FROM account_mark m WHERE m.account_id = owned AND m.cause = 'wallet') > 64 THEN
        RAISE EXCEPTION 'an account is marked by at most 64 wallets'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'user_identity_marks';
    END IF;
    RETURN NULL;
END $$;
