-- Evidence may come between the look for holds without it and their end. That
-- is a conflict of two transactions, which the repetition of the look resolves.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_unreviewed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM evidence e WHERE e.request_id = NEW.request_id)
        AND NOT EXISTS (SELECT FROM orphan_review v WHERE v.request_id = NEW.request_id AND v.publications = 13)
    THEN
        RAISE EXCEPTION 'request % was served and is to be reviewed', NEW.request_id
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
