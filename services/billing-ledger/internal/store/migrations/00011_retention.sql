-- What a request leaves beside its settled line (its hold, the accounts of
-- gateways and of providers, its review) is kept for a number of days and then
-- deleted. The line, entries and seals stay for ever.
--
-- A request belongs to the UTC day inside its id, a UUID of version 7, so the
-- requests of a day are one range of the primary keys: they are deleted in the
-- order in which they came, and leave whole pages empty. Partitions would save
-- the deletes, but each statement on the request's path would lock and plan for
-- one partition a day.

-- +goose Up

-- The days of which nothing but settled lines is promised any more, without gaps.
CREATE TABLE cleared_day (
    day        date PRIMARY KEY REFERENCES seal,
    cleared_at timestamptz NOT NULL DEFAULT now()
);

CREATE TRIGGER hold_is_kept AFTER DELETE ON hold REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER request_report_is_kept AFTER DELETE ON request_report REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER renewal_is_kept AFTER DELETE ON renewal REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER orphan_review_is_kept AFTER DELETE ON orphan_review REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();
CREATE TRIGGER work_receipt_is_kept AFTER DELETE ON work_receipt REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_uncleared();

GRANT SELECT ON cleared_day TO svc_billing;
