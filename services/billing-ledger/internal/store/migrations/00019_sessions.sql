-- What users sign in with beside a password, and user sessions that are refreshed.

-- +goose Up
ALTER TABLE app_user ADD COLUMN email_confirmed_at timestamptz;
COMMENT ON COLUMN app_user.email_confirmed_at IS 'When the user has shown that it reads the e-mail.';
