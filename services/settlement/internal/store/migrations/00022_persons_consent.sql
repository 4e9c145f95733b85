-- Above $10,000 two operators who signed in consent (payout_moves). What a program consented to before does not count.

-- +goose Up
SELECT 1;
