-- Which tiers draw on a limit of a plan, beside the tiers that an allowance covers. The free
-- tier is covered and draws on no allowance.

-- +goose Up
-- The program before leaves the column out: then every tier that is covered draws.
ALTER TABLE plan_limit ADD COLUMN draws smallint[]
    CONSTRAINT plan_limit_draws CHECK (draws <@ ARRAY[1, 2, 3]::smallint[]);
COMMENT ON COLUMN plan_limit.draws IS 'The tiers whose requests count; null for all of tiers.';

UPDATE plan_limit SET draws = array_remove(tiers, 1::smallint) WHERE kind IN ('tokens', 'list_price');

-- What requests of the free tier took of allowances is given back.
WITH taken AS (
    SELECT h.account_id, l.kind, l.period, date_trunc(l.period, h.plan_day::timestamp)::date AS window_start,
        sum(CASE WHEN l.kind = 'list_price' THEN CASE h.state WHEN 'open' THEN h.plan_price WHEN 'settled' THEN s.list_price
                ELSE 0 END
            WHEN h.unit <> 0 THEN 0 WHEN h.state = 'open' THEN h.prompt_tokens + h.max_completion_tokens
            WHEN h.state = 'settled' THEN s.prompt_tokens + s.completion_tokens ELSE 0 END)::bigint AS units
    FROM hold h
    JOIN plan_limit l ON l.plan_id = h.plan_id AND l.kind IN ('tokens', 'list_price') AND 1 = ANY (l.tiers)
    LEFT JOIN usage_settlement s ON s.request_id = h.request_id AND s.source = 'plan'
    WHERE h.plan_tier = 1
    GROUP BY 1, 2, 3, 4)
UPDATE plan_counter c SET used = c.used - t.units, excess = least(c.excess, c.used - t.units)
FROM taken t
WHERE (c.account_id, c.kind, c.period, c.window_start) = (t.account_id, t.kind, t.period, t.window_start);

DROP TRIGGER plan_limits_keep_their_form ON plan_limit;
CREATE TRIGGER plan_limits_keep_their_form BEFORE UPDATE ON plan_limit
    FOR EACH ROW WHEN ((NEW.plan_id, NEW.kind, NEW.period, NEW.unit, NEW.tiers, NEW.draws)
        IS DISTINCT FROM (OLD.plan_id, OLD.kind, OLD.period, OLD.unit, OLD.tiers, OLD.draws))
    EXECUTE FUNCTION refuse_change();
