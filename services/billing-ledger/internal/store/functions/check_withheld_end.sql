-- What is posted of held earnings by plans is what was ruled of them: a share of what was
-- released, a forfeit of what was forfeited. Only what was held when its month was closed has
-- a part of the pool. All ends of a share together have at most what it withholds, and the
-- last has the rest. Of a closed month nothing else is shared or forfeited.
CREATE OR REPLACE FUNCTION check_withheld_end() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_business text;
    h          record;
    v_right    boolean;
BEGIN
    SELECT business_id INTO v_business FROM entry WHERE id = NEW.entry_id;
    IF v_business !~ '/held/[0-9a-f-]{36}$' THEN
        v_right := NOT EXISTS (SELECT FROM closed_month WHERE month = NEW.book)
            OR NEW.entry_kind = 'plan_share' AND EXISTS (SELECT FROM closed_share s WHERE s.month = NEW.book
                AND s.provider_id = NEW.owner_id AND v_business = s.month || '/' || s.provider_id
                AND s.earned - s.withheld = -NEW.amount);
    ELSE
        SELECT * INTO h FROM held_earning WHERE request_id = right(v_business, 36)::uuid
            AND v_business = book || '/' || provider_id || '/held/' || request_id AND book = NEW.book;
        PERFORM lock_earnings(ARRAY[h.provider_id]);
        v_right := CASE NEW.entry_kind
                WHEN 'plan_share' THEN h.withheld AND h.ended_as = 'released'
                WHEN 'plan_forfeit' THEN h.ended_as = 'forfeited'
                ELSE h.withheld AND h.ended_as = 'forfeited' AND EXISTS (SELECT FROM entry
                    WHERE kind = 'plan_forfeit' AND business_id = v_business) END
            AND (NEW.entry_kind = 'plan_unclaimed' OR NEW.owner_id = h.provider_id AND NEW.amount = -h.payout)
            AND (NOT h.withheld OR EXISTS (SELECT FROM closed_share s CROSS JOIN LATERAL (
                    SELECT count(*) AS ends, sum(earned) AS earned, sum(paid) AS paid,
                        sum(paid) FILTER (WHERE w.request_id = h.request_id) AS own
                    FROM withheld_end w WHERE w.month = s.month AND w.provider_id = s.provider_id) e
                WHERE s.month = h.book AND s.provider_id = h.provider_id AND e.paid <= s.withheld_paid
                    -- Each end rounds down by less than one, and the others have what it leaves.
                    AND abs(e.own * s.withheld - h.payout::numeric * s.withheld_paid) <= e.ends * s.withheld
                    AND (e.earned < s.withheld OR e.earned = s.withheld AND e.paid = s.withheld_paid)));
    END IF;
    IF v_right IS NOT TRUE THEN
        RAISE EXCEPTION 'entry % of % % was not ruled so', NEW.entry_id, NEW.entry_kind, v_business
            USING ERRCODE = 'check_violation', CONSTRAINT = 'withheld_ends_as_ruled';
    END IF;
    RETURN NULL;
END $$;
