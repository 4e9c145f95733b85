-- An invoice of a vendor is paid by its entries and by nothing else: the bank paid what it asks
-- for, and what was counted was corrected by the difference.
CREATE OR REPLACE FUNCTION check_vendor_invoice() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_paid bigint;
    v_corrected bigint;
BEGIN
    SELECT coalesce(-sum(p.amount) FILTER (WHERE e.kind = 'vendor_paid'), 0),
            coalesce(sum(p.amount) FILTER (WHERE e.kind = 'vendor_corrected'), 0) INTO v_paid, v_corrected
        FROM entry e JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:vendor:payable' AND p.owner_id = NEW.vendor_id
        WHERE e.kind IN ('vendor_paid', 'vendor_corrected') AND e.business_id = NEW.vendor_id || '/' || NEW.number;
    IF v_paid <> NEW.amount OR v_corrected <> NEW.amount - NEW.counted THEN
        RAISE EXCEPTION 'invoice % of vendor % has % paid and % corrected', NEW.number, NEW.vendor_id, v_paid, v_corrected
            USING ERRCODE = 'check_violation', CONSTRAINT = 'vendor_invoice_is_posted';
    END IF;
    RETURN NULL;
END $$;
