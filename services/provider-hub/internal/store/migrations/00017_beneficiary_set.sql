-- +goose Up
-- The account's user changes where earnings go without a key, by an entry beneficiary_set: see the
-- function provider_beneficiary_entered. Such changes have a bound of their own, beside the bound
-- of what keys ask for, whose index is provider_status_change_asked.
CREATE INDEX provider_status_change_set ON provider_status_change (provider_id, changed_at)
	WHERE what = 'beneficiary_set';
