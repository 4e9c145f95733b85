-- The user of a provider is told of an address that the provider did not have before.

-- +goose Up
ALTER TABLE mail_outbox DROP CONSTRAINT mail_outbox_kind_check;
ALTER TABLE mail_outbox ADD CONSTRAINT mail_outbox_kind_check
    CHECK (kind IN ('confirm', 'reset', 'reuse', 'password_changed', 'reset_done', 'identity_linked',
        'identity_ended', 'provider_address'));
