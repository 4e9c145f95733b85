-- Admission costs what it cost before keys had budgets.

-- +goose Up
SELECT 1;
