-- Nothing takes from a balance what is held of it, by whatever kind of entry.
-- Those who take from one provider wait for each other, by the lock that refunds
-- take; who settles need not, since it adds as much as it holds. For the same
-- reason there is nothing to wait for while nothing is held. Both sums are of
-- one statement, which begins after the lock is had: what is settled meanwhile
-- is in both or in neither.
CREATE OR REPLACE FUNCTION keep_held_earnings() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_held bigint;
    v_left bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM held_earning WHERE provider_id = NEW.owner_id AND ended_as IS NULL) THEN
        RETURN NULL;
    END IF;
    PERFORM lock_earnings(ARRAY[NEW.owner_id]);
    SELECT coalesce(sum(payout), 0), provider_balance(NEW.account_kind, NEW.owner_id, NEW.book) INTO v_held, v_left
        FROM held_earning WHERE provider_id = NEW.owner_id AND book = NEW.book AND ended_as IS NULL;
    IF v_held > greatest(v_left, 0) THEN
        RAISE EXCEPTION '% of provider % would be left on % %, and % are held of it', v_left, NEW.owner_id, NEW.account_kind, NEW.book, v_held
            USING ERRCODE = 'check_violation', CONSTRAINT = 'held_earnings_stay';
    END IF;
    RETURN NULL;
END $$;
