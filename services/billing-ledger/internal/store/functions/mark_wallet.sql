-- A wallet marks the account of its user, who is locked. Ending the identity does not take the mark
-- away. Proving a wallet costs nothing, so an account is marked by at most 64, ever: else an owner
-- could fill it with marks, and the card or the deposit that would show the owner would be passed
-- over. A link may be refused, other than a payment.
CREATE OR REPLACE FUNCTION mark_wallet() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    owned uuid;
    wallets bigint;
    marked boolean;
BEGIN
    SELECT u.account_id INTO owned FROM app_user u WHERE u.id = NEW.user_id;
    INSERT INTO account_mark (account_id, evidence, cause) VALUES (owned, NEW.evidence, 'wallet')
        ON CONFLICT DO NOTHING;
    SELECT count(*), coalesce(bool_or(m.evidence = NEW.evidence), false) INTO wallets, marked
        FROM account_mark m WHERE m.account_id = owned AND m.cause = 'wallet';
    IF wallets > 64 OR NOT marked THEN
        RAISE EXCEPTION 'an account is marked by at most 64 wallets'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'user_identity_marks';
    END IF;
    RETURN NULL;
END $$;
