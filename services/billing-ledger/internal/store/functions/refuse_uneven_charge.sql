-- What a request is charged, what is short of it and what its discount takes off are its list
-- price, and nothing where no credit pays for it. A discount leaves a price.
CREATE OR REPLACE FUNCTION refuse_uneven_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'request %: % charged, % short and % of discount are not the list price %', NEW.request_id,
        NEW.charged, NEW.shortfall, NEW.discount, NEW.list_price USING ERRCODE = 'integrity_constraint_violation';
END $$;
