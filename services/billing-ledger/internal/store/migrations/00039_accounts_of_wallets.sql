-- Operators find the accounts that an address has marked, page by page in the order of the list.

-- +goose Up
CREATE INDEX account_mark_listed ON account_mark (evidence, account_id);
