-- A document has the next number of its series in the year of its time. The row of the last
-- number is locked until the transaction ends, so a number is never skipped: one that is not
-- committed is given again. The application itself may not write numbers.
CREATE OR REPLACE FUNCTION number_document() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = billing, pg_temp AS $$
BEGIN
    NEW.year := extract(year FROM NEW.at AT TIME ZONE 'UTC');
    INSERT INTO document_number AS d (series, year, last) VALUES (NEW.series, NEW.year, 1)
        ON CONFLICT (series, year) DO UPDATE SET last = d.last + 1 RETURNING last INTO NEW.number;
    RETURN NEW;
END $$;

REVOKE ALL ON FUNCTION number_document FROM PUBLIC;
