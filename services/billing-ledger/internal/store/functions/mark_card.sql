-- A payment marks whom it was for with its card.
CREATE OR REPLACE FUNCTION mark_card() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    paid checkout%ROWTYPE;
BEGIN
    SELECT * INTO paid FROM checkout c WHERE c.id = NEW.checkout_id;
    IF paid.account_id IS NOT NULL THEN
        INSERT INTO account_mark (account_id, evidence, cause) VALUES (paid.account_id, NEW.card_fingerprint, 'card')
            ON CONFLICT DO NOTHING;
    END IF;
    IF paid.provider_id IS NOT NULL THEN
        INSERT INTO provider_mark (provider_id, evidence, cause) VALUES (paid.provider_id, NEW.card_fingerprint, 'card')
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
