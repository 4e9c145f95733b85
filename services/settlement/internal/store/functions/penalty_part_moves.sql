-- A part changes by a transition of penalty_part_transition alone. What it takes stays, and so do its entries and its
-- price. A part by card is forfeited once its penalty is executed, and given back once its penalty is reversed.
CREATE OR REPLACE FUNCTION penalty_part_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_penalty text;
BEGIN
    IF (OLD.part_id, OLD.penalty_id, OLD.provider_id, OLD.chain_id, OLD.depositor, OLD.amount, OLD.units, OLD.nano_usd)
        IS DISTINCT FROM
       (NEW.part_id, NEW.penalty_id, NEW.provider_id, NEW.chain_id, NEW.depositor, NEW.amount, NEW.units, NEW.nano_usd)
    THEN
        RAISE EXCEPTION 'what a part takes stays' USING ERRCODE = 'check_violation';
    ELSIF NEW.state <> OLD.state AND NOT EXISTS (
        SELECT FROM penalty_part_transition t WHERE t.from_state = OLD.state AND t.to_state = NEW.state)
    THEN
        RAISE EXCEPTION 'a part does not go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    ELSIF OLD.begun_entry IS NOT NULL AND NEW.begun_entry IS DISTINCT FROM OLD.begun_entry
        OR OLD.ended_entry IS NOT NULL AND NEW.ended_entry IS DISTINCT FROM OLD.ended_entry
        OR OLD.rate_nano_usd IS NOT NULL AND (NEW.rate_nano_usd, NEW.rate_source, NEW.rate_at)
            IS DISTINCT FROM (OLD.rate_nano_usd, OLD.rate_source, OLD.rate_at)
    THEN
        RAISE EXCEPTION 'the entries and the price of a part stay' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.chain_id IS NULL AND NEW.state <> OLD.state AND NEW.state IN ('executed', 'reversed') THEN
        SELECT state INTO v_penalty FROM penalty WHERE penalty_id = NEW.penalty_id;
        IF v_penalty <> NEW.state THEN
            RAISE EXCEPTION 'a part is not % while its penalty is %', NEW.state, v_penalty USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
