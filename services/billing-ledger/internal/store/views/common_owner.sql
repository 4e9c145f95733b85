-- Which accounts and providers have one owner, and how that is known. Other
-- ties join as further members of a UNION, each with a rule of its own, and all
-- found by account_id in an index.
CREATE OR REPLACE VIEW common_owner AS
    SELECT account_id, provider_id, 'same_user'::text AS rule FROM app_user WHERE provider_id IS NOT NULL;

GRANT SELECT ON common_owner TO svc_billing;
