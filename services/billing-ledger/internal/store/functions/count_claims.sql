-- Claims are counted by key and by account. Accounts are locked behind keys, in the
-- order of their ids.
CREATE OR REPLACE FUNCTION count_claims() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    -- No CHECK, because an account may have had more when the bound was made.
    c_max CONSTANT integer := 100000;
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE idempotency_quota q SET live = q.live + c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
        INSERT INTO idempotency_account AS a (account_id, live)
        SELECT k.account_id, count(*) FROM changed c JOIN consumer_key k ON k.id = c.key_id GROUP BY k.account_id ORDER BY k.account_id
        ON CONFLICT (account_id) DO UPDATE SET live = a.live + excluded.live;
        IF EXISTS (SELECT FROM idempotency_account WHERE live > c_max
            AND account_id IN (SELECT k.account_id FROM changed c JOIN consumer_key k ON k.id = c.key_id)) THEN
            RAISE EXCEPTION 'an account has at most % claims', c_max
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_account_bound', TABLE = 'idempotency_account';
        END IF;
    ELSE
        UPDATE idempotency_quota q SET live = q.live - c.n
        FROM (SELECT key_id, count(*)::integer AS n FROM changed GROUP BY key_id) c WHERE q.key_id = c.key_id;
        PERFORM FROM idempotency_account
        WHERE account_id IN (SELECT k.account_id FROM changed c JOIN consumer_key k ON k.id = c.key_id) ORDER BY account_id FOR UPDATE;
        UPDATE idempotency_account a SET live = a.live - c.n
        FROM (SELECT k.account_id, count(*)::integer AS n FROM changed c JOIN consumer_key k ON k.id = c.key_id GROUP BY k.account_id) c
        WHERE a.account_id = c.account_id;
    END IF;
    RETURN NULL;
END $$;
