-- A penalty that is created is told to the account of the provider's user.
CREATE OR REPLACE FUNCTION tell_penalty() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    INSERT INTO account_event (kind, provider_id, data)
    VALUES ('penalty.created', NEW.provider_id, jsonb_build_object('penalty_id', NEW.penalty_id,
        'provider_id', NEW.provider_id, 'model_id', NEW.model_id, 'kind', NEW.kind,
        'share_percent', NEW.share_basis_points / 100.0, 'removes', NEW.removes, 'summary', left(NEW.summary, 500),
        'appeal_until', to_char(NEW.appeal_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')));
    RETURN NULL;
END $$;
