-- No more of a prompt is read from a cache than the prompt has, and what is read from it costs
-- no more than what is not.
CREATE OR REPLACE FUNCTION refuse_uneven_cache() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'request %: % cached of % prompt tokens, at % of %', NEW.request_id, NEW.cached_tokens,
        NEW.prompt_tokens, NEW.cached_rate, NEW.payout_input_rate USING ERRCODE = 'integrity_constraint_violation';
END $$;
