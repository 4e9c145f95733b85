-- The penalties of a provider that stand at the same time take at most the whole collateral:
-- those that are open, and those executed since the oldest of them was opened.
CREATE OR REPLACE FUNCTION penalty_fits() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    c_whole CONSTANT integer := 10000;
BEGIN
    -- Others that open a penalty of this provider wait here, and then count this one.
    PERFORM pg_advisory_xact_lock(hashtext('penalty'), hashtext(NEW.provider_id::text));
    IF (
        WITH open AS (
            SELECT min(opened_at) AS oldest FROM penalty
            WHERE provider_id = NEW.provider_id AND state IN ('proposed', 'appealed', 'upheld')
        )
        SELECT sum(share_basis_points) FROM penalty, open WHERE provider_id = NEW.provider_id
            AND (state IN ('proposed', 'appealed', 'upheld') OR state = 'executed' AND executed_at > open.oldest)
    ) > c_whole THEN
        RAISE EXCEPTION 'the penalties of a provider take at most its whole collateral'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'penalty_shares', TABLE = 'penalty';
    END IF;
    RETURN NULL;
END $$;
