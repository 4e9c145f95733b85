-- Which family of evidence led to a penalty.

-- +goose Up
-- Empty for penalties of before the column. The verifier names the families, and may know more of them than settlement.
ALTER TABLE penalty ADD COLUMN family text COLLATE "C" NOT NULL DEFAULT ''
    CONSTRAINT penalty_family CHECK (family ~ '^[a-z_]{0,32}$');
GRANT INSERT (family) ON penalty TO svc_settlement;
