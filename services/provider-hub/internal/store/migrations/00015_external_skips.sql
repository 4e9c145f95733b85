-- +goose Up
-- How many endpoints a hub cannot serve, because no secret of the hub opens their keys. The other hubs take as many more.
ALTER TABLE external_hub ADD COLUMN skips integer NOT NULL DEFAULT 0 CHECK (skips BETWEEN 0 AND 1024);
GRANT UPDATE (skips) ON external_hub TO svc_hub;
