-- A payout that was lost is adopted beside a refund of collateral (payout_beside_refund).

-- +goose Up
SELECT 1;
