-- For triggers whose condition says what may not change.
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this row of % may not change any more', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
