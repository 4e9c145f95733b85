-- The roles, logins and schemas of the marketplace's services. Run it as a user
-- who may create roles and owns the database, in that database:
--
--   psql -v ON_ERROR_STOP=1 -d marketplace -f deploy/postgres/logins.sql
--
-- It makes what is missing and may be run again. Then give each login a password
-- (\password svc_billing_login, ...). Per schema there are
--   svc_*          a role that may use the tables; migrations grant it what the service needs,
--   svc_*_owner    a role that owns them,
--   svc_*_login    the service's login, a member of the first: DATABASE_URL,
--   svc_*_migrate  the migrations' login, a member of the second: DATABASE_OWNER_URL.
-- Roles belong to the whole server: a login of another deployment there is a member
-- of the same roles. So CONNECT and TEMPORARY on the database are taken from PUBLIC,
-- and CONNECT is given to these logins. Superusers and the database's owner connect
-- as before; GRANT CONNECT ON DATABASE ... to whoever else must, as a monitor.
-- A further login in the same role is how a password is changed without a pause; it
-- needs CONNECT, too.
--
-- This text is written by services/standalone/logins, whose tests hold it.

-- catalog
DO $logins$
DECLARE
    v_schemas text[] := ARRAY['catalog']::text[];
    v_role    text := 'svc_catalog';    -- may use the tables
    v_owner   text := 'svc_catalog_owner';   -- owns them
    v_login   text := 'svc_catalog_login';   -- the service's, for DATABASE_URL
    v_migrate text := 'svc_catalog_migrate'; -- the migrations', for DATABASE_OWNER_URL
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
    FOREACH v_name IN ARRAY ARRAY[]::text[] LOOP
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

-- billing-ledger
DO $logins$
DECLARE
    v_schemas text[] := ARRAY['billing', 'kept']::text[];
    v_role    text := 'svc_billing';    -- may use the tables
    v_owner   text := 'svc_billing_owner';   -- owns them
    v_login   text := 'svc_billing_login';   -- the service's, for DATABASE_URL
    v_migrate text := 'svc_billing_migrate'; -- the migrations', for DATABASE_OWNER_URL
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
    FOREACH v_name IN ARRAY ARRAY['btree_gist']::text[] LOOP
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

-- chain-signer
DO $logins$
DECLARE
    v_schemas text[] := ARRAY['signer']::text[];
    v_role    text := 'svc_signer';    -- may use the tables
    v_owner   text := 'svc_signer_owner';   -- owns them
    v_login   text := 'svc_signer_login';   -- the service's, for DATABASE_URL
    v_migrate text := 'svc_signer_migrate'; -- the migrations', for DATABASE_OWNER_URL
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
    FOREACH v_name IN ARRAY ARRAY[]::text[] LOOP
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

-- settlement
DO $logins$
DECLARE
    v_schemas text[] := ARRAY['settlement']::text[];
    v_role    text := 'svc_settlement';    -- may use the tables
    v_owner   text := 'svc_settlement_owner';   -- owns them
    v_login   text := 'svc_settlement_login';   -- the service's, for DATABASE_URL
    v_migrate text := 'svc_settlement_migrate'; -- the migrations', for DATABASE_OWNER_URL
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
    FOREACH v_name IN ARRAY ARRAY[]::text[] LOOP
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

-- provider-hub
DO $logins$
DECLARE
    v_schemas text[] := ARRAY['hub']::text[];
    v_role    text := 'svc_hub';    -- may use the tables
    v_owner   text := 'svc_hub_owner';   -- owns them
    v_login   text := 'svc_hub_login';   -- the service's, for DATABASE_URL
    v_migrate text := 'svc_hub_migrate'; -- the migrations', for DATABASE_OWNER_URL
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
    FOREACH v_name IN ARRAY ARRAY[]::text[] LOOP
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

-- verifier
DO $logins$
DECLARE
    v_schemas text[] := ARRAY['verifier']::text[];
    v_role    text := 'svc_verifier';    -- may use the tables
    v_owner   text := 'svc_verifier_owner';   -- owns them
    v_login   text := 'svc_verifier_login';   -- the service's, for DATABASE_URL
    v_migrate text := 'svc_verifier_migrate'; -- the migrations', for DATABASE_OWNER_URL
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
    FOREACH v_name IN ARRAY ARRAY[]::text[] LOOP
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
