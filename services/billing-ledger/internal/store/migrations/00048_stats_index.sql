-- The index by which the fold reads reports in the order in which they were recorded. It is
-- built beside the transactions under way, because gateways report all the time.

-- +goose NO TRANSACTION
-- +goose Up
-- To build it, PostgreSQL waits for each transaction under way, however long it takes.
SET lock_timeout = 0;
-- A migration that was interrupted leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS request_report_recorded;
CREATE INDEX CONCURRENTLY request_report_recorded ON request_report (recorded_at);
RESET lock_timeout;
