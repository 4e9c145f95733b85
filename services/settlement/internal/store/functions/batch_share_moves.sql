-- Of a share, what was posted and the signature are set once, and all else stays. What was posted was attempted.
CREATE OR REPLACE FUNCTION batch_share_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF (OLD.day, OLD.chain_id, OLD.index, OLD.provider_id, OLD.beneficiary, OLD.earned, OLD.given, OLD.blocked,
        OLD.amount, OLD.lines, OLD.csv, OLD.statement, OLD.summary)
        IS DISTINCT FROM
       (NEW.day, NEW.chain_id, NEW.index, NEW.provider_id, NEW.beneficiary, NEW.earned, NEW.given, NEW.blocked,
        NEW.amount, NEW.lines, NEW.csv, NEW.statement, NEW.summary)
    THEN
        RAISE EXCEPTION 'a share stays' USING ERRCODE = 'check_violation';
    ELSIF OLD.posted IS NOT NULL
        AND (OLD.posted, OLD.entry_id, OLD.posted_at) IS DISTINCT FROM (NEW.posted, NEW.entry_id, NEW.posted_at)
    THEN
        RAISE EXCEPTION 'a share is posted once' USING ERRCODE = 'check_violation';
    ELSIF OLD.signature IS NOT NULL
        AND (OLD.signature, OLD.signer, OLD.signed_at) IS DISTINCT FROM (NEW.signature, NEW.signer, NEW.signed_at)
    THEN
        RAISE EXCEPTION 'a statement is signed once' USING ERRCODE = 'check_violation';
    ELSIF OLD.posted IS NULL AND NEW.posted > 0 AND NOT EXISTS (SELECT FROM batch_attempt a
        WHERE a.day = NEW.day AND a.provider_id = NEW.provider_id AND a.amount = NEW.posted)
    THEN
        RAISE EXCEPTION 'what is posted was attempted' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
