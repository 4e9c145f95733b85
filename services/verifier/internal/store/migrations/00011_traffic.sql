-- What the requests of offers were in each hour, from which a replica begins.

-- +goose Up
CREATE TABLE traffic_hour (
    hour            timestamptz NOT NULL CHECK (date_trunc('hour', hour, 'UTC') = hour),
    provider_id     uuid NOT NULL,
    model_id        text COLLATE "C" NOT NULL,
    requests        bigint NOT NULL CHECK (requests BETWEEN 0 AND 4294967295),
    served          bigint NOT NULL CHECK (served BETWEEN 0 AND requests),
    payout_nano_usd bigint NOT NULL CHECK (payout_nano_usd >= 0),
    PRIMARY KEY (hour, provider_id, model_id),
    FOREIGN KEY (provider_id, model_id) REFERENCES offering,
    CONSTRAINT traffic_hour_counts CHECK (requests > 0 OR payout_nano_usd > 0)
);
COMMENT ON TABLE traffic_hour IS 'The requests of an offer in an hour and what they earned, as the replica heard that heard most of them. Kept for eight days.';

GRANT SELECT, INSERT, UPDATE (requests, served, payout_nano_usd), DELETE ON traffic_hour TO svc_verifier;
