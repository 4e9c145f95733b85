-- A probe is forgotten 90 days after its end. A probe that an event names is kept with it.
CREATE OR REPLACE FUNCTION probe_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.ended_at IS NULL OR OLD.ended_at + interval '90 days' > clock_timestamp() THEN
        RAISE EXCEPTION 'rows of probe are kept as they are' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
