DO $logins$
DECLARE
    v_schemas text[] := :schemas;
    v_role    text := :role;    -- may use the tables
    v_owner   text := :owner;   -- owns them
    v_login   text := :login;   -- the service's, for DATABASE_URL
    v_migrate text := :migrate; -- the migrations', for DATABASE_OWNER_URL
    v_schema  text;
    v_name    text;
    v_change  text;
BEGIN
    FOREACH v_name IN ARRAY ARRAY[v_role, v_owner] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', v_name);
        END IF;
    END LOOP;
    FOREACH v_name IN ARRAY ARRAY[v_login, v_migrate] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_name) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', v_name);
        END IF;
    END LOOP;
    IF NOT pg_has_role(v_login, v_role, 'MEMBER') THEN
        EXECUTE format('GRANT %I TO %I', v_role, v_login);
    END IF;
    IF NOT pg_has_role(v_migrate, v_owner, 'MEMBER') THEN
        EXECUTE format('GRANT %I TO %I', v_owner, v_migrate);
    END IF;
    -- Roles belong to the whole server, and so reach the tables of each deployment
    -- on it. Therefore nobody may connect here whose login was not made here.
    IF has_database_privilege('public', current_database(), 'CONNECT') OR has_database_privilege('public', current_database(), 'TEMPORARY') THEN
        EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    END IF;
    FOREACH v_name IN ARRAY ARRAY[v_login, v_migrate] LOOP
        IF NOT has_database_privilege(v_name, current_database(), 'CONNECT') THEN
            EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), v_name);
        END IF;
    END LOOP;
    -- To give the owner something, one must be a member.
    IF NOT pg_has_role(v_owner, 'USAGE') THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', v_owner);
    END IF;

    FOREACH v_schema IN ARRAY v_schemas LOOP
        IF to_regnamespace(quote_ident(v_schema)) IS NULL THEN
            EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', v_schema, v_owner);
        ELSIF (SELECT nspowner <> v_owner::regrole FROM pg_namespace WHERE nspname = v_schema) THEN
            EXECUTE format('ALTER SCHEMA %I OWNER TO %I', v_schema, v_owner);
        END IF;
        IF NOT has_schema_privilege(v_role, v_schema, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', v_schema, v_role);
        END IF;
    END LOOP;
    FOREACH v_name IN ARRAY :extensions LOOP
        EXECUTE format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA %I', v_name, v_schemas[1]);
    END LOOP;

    -- What an earlier release made under another login. A sequence of a column
    -- goes with its table, and what belongs to an extension stays.
    FOR v_change IN
        SELECT format('ALTER TABLE %s OWNER TO %I', c.oid::regclass, v_owner)
        FROM pg_class c
        WHERE c.relnamespace = ANY (v_schemas::regnamespace[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND c.relowner <> v_owner::regrole
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
                          AND (d.deptype IN ('e', 'i') OR c.relkind = 'S' AND d.deptype = 'a'))
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO %I', p.oid::regprocedure, v_owner)
        FROM pg_proc p
        WHERE p.pronamespace = ANY (v_schemas::regnamespace[]) AND p.proowner <> v_owner::regrole
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
        UNION ALL
        SELECT format('ALTER TYPE %s OWNER TO %I', t.oid::regtype, v_owner)
        FROM pg_type t
        WHERE t.typnamespace = ANY (v_schemas::regnamespace[]) AND t.typowner <> v_owner::regrole
          AND (t.typtype IN ('d', 'e', 'r') OR EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
    LOOP
        EXECUTE v_change;
    END LOOP;
END
$logins$;
