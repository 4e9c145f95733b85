-- What was served is not given away for nothing: a hold with evidence expires
-- only when its review has come to its end. Evidence may come between the look for
-- holds without it and their end. That is a conflict of two transactions, which the
-- repetition of the look resolves. Whoever may make temporary tables shall not
-- choose what this looks at.
CREATE OR REPLACE FUNCTION refuse_unreviewed() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM evidence e WHERE e.request_id = NEW.request_id)
        AND NOT EXISTS (SELECT FROM orphan_review v WHERE v.request_id = NEW.request_id AND v.publications = 13)
    THEN
        RAISE EXCEPTION 'request % was served and is to be reviewed', NEW.request_id
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;
