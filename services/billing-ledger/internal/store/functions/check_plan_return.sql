-- Of an invoice no more goes back than was paid.
CREATE OR REPLACE FUNCTION check_plan_return() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT sum(cents) FROM plan_return WHERE invoice_id = NEW.invoice_id)
        > (SELECT cents FROM plan_invoice WHERE id = NEW.invoice_id) THEN
        RAISE EXCEPTION 'more of invoice % goes back than was paid', NEW.invoice_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'plan_returns_within_invoice';
    END IF;
    RETURN NULL;
END $$;
