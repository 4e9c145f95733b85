-- A webhook's second change of secret within a day does not end the overlap of the first.

-- +goose Up
-- The secret before previous. A replica of the previous release neither reads nor writes it, so a change
-- of secret by such a replica ends the overlap of previous, as it did before.
ALTER TABLE webhook
    ADD COLUMN earlier       bytea CONSTRAINT webhook_earlier_check CHECK (octet_length(earlier) BETWEEN 1 AND 256),
    ADD COLUMN earlier_until timestamptz,
    ADD CONSTRAINT webhook_earlier_overlap CHECK ((earlier IS NULL) = (earlier_until IS NULL));
GRANT UPDATE (earlier, earlier_until) ON webhook TO svc_billing;
