-- How the provider of a settled request was reached.

-- +goose Up
-- A number of svc.events.v1.ConnectionMode, also one that only later releases know; 0 where the usage
-- does not say it. Rows of before the column have none: their providers were reached by WebSocket.
-- It is no column of a seal, because no amount depends on it.
ALTER TABLE usage_settlement ADD COLUMN connection_mode smallint
    CONSTRAINT usage_settlement_connection_mode_check CHECK (connection_mode >= 0);
