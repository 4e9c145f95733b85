-- An older word of the verifier or of settlement never takes the place of a newer one.
CREATE OR REPLACE FUNCTION provider_revisions_grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a revision only grows' USING ERRCODE = 'check_violation';
END
$$;
