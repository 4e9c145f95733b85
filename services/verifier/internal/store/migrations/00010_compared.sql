-- How far two references of a stratum were apart, for the guard of every replica.

-- +goose Up
ALTER TABLE stratum
    -- The distance between the X of two references at the last answer that both scored, and
    -- when that was judged; null before the first.
    ADD COLUMN apart double precision CHECK (apart >= 0),
    ADD COLUMN compared_at timestamptz,
    ADD CONSTRAINT stratum_compared CHECK ((apart IS NULL) = (compared_at IS NULL));

GRANT UPDATE (apart, compared_at) ON stratum TO svc_verifier;
