-- What names an offering stays, times never go back, and the database says when a
-- statement changed.
CREATE OR REPLACE FUNCTION offering_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.provider_id, NEW.model_id, NEW.rank, NEW.first_seen) IS DISTINCT FROM
       (OLD.provider_id, OLD.model_id, OLD.rank, OLD.first_seen)
    THEN
        RAISE EXCEPTION 'an offering keeps its name and its rank' USING ERRCODE = 'check_violation';
    END IF;
    NEW.changed_at := OLD.changed_at;
    IF (NEW.engine, NEW.gpu, NEW.file_revision, NEW.quantization) IS DISTINCT FROM
       (OLD.engine, OLD.gpu, OLD.file_revision, OLD.quantization)
    THEN
        NEW.changed_at := greatest(OLD.changed_at, clock_timestamp());
    END IF;
    NEW.seen_at := greatest(OLD.seen_at, least(NEW.seen_at, clock_timestamp()));
    RETURN NEW;
END $$;
