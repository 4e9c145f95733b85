package pgtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Describe is what the database at url has in the schemas, a line for each
// fact, sorted: columns with type, collation, default, nullability and
// identity; constraints, indexes, triggers, functions and views with their
// text; partitions, storage parameters, owners, grants and comments; and the
// rows, without their times. The order of columns is left out, because code
// names the columns it means, and so is the list of migrations.
//
// Objects of extensions are left out. The database should be fresh from its
// migrations: every row counts as a seed. Where a fact has several lines, the
// further ones begin with a tab.
func Describe(t testing.TB, url string, schemas ...string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect to describe a database: %v", err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	return describe(t, conn, schemas)
}

// session is a connection, or a transaction on one.
type session interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func describe(t testing.TB, conn session, schemas []string) string {
	t.Helper()
	// Names are written without a schema where they are in the search path.
	if _, err := conn.Exec(t.Context(), "SELECT set_config('search_path', 'pg_catalog', false)"); err != nil {
		t.Fatalf("describe a database: %v", err)
	}
	lines := collect(t, conn, describeObjects, schemas)
	for _, table := range collect(t, conn, describedTables, schemas) {
		rows := collect(t, conn, fmt.Sprintf(`SELECT 'row '||%s||' '||(to_jsonb(r) - $1::text[]) FROM %s r ORDER BY 1`,
			literal(table), table), collect(t, conn, describeTimes, table))
		lines = append(lines, rows...)
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\n", "\n\t")
	}
	return strings.Join(lines, "\n") + "\n"
}

func collect(t testing.TB, conn session, sql string, arg any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, arg)
	if err != nil {
		t.Fatalf("describe a database: %v", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("describe a database: %v", err)
	}
	return lines
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// describedTables are the tables whose rows are listed. Partitions are read through their
// parent table.
const describedTables = `
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relnamespace = ANY ($1::text[]::regnamespace[]) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND c.relname NOT IN ('schema_migrations', 'schema_function')
ORDER BY 1`

// describeTimes are the columns of a table that say when it was made.
const describeTimes = `
SELECT attname FROM pg_attribute
WHERE attrelid = $1::text::regclass AND atttypid = 'timestamptz'::regtype AND attnum > 0`

// describeObjects takes the schemas. Privileges that nobody granted or revoked are the
// default ones, and are written as if they had been granted.
const describeObjects = `
WITH own AS (SELECT n.oid, n.nspowner FROM pg_namespace n WHERE n.nspname = ANY ($1)),
member AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
rel AS (
    SELECT c.*, c.oid::regclass::text AS name, nullif(c.relowner, own.nspowner)::regrole AS other
    FROM pg_class c JOIN own ON own.oid = c.relnamespace
    WHERE c.relname <> 'schema_migrations' AND c.relname NOT LIKE 'schema\_migrations\_%'
      AND NOT EXISTS (SELECT FROM member m WHERE m.classid = 'pg_class'::regclass AND m.objid = c.oid)
),
proc AS (
    SELECT p.*, p.oid::regprocedure::text AS name, nullif(p.proowner, own.nspowner)::regrole AS other
    FROM pg_proc p JOIN own ON own.oid = p.pronamespace
    WHERE p.prokind IN ('f', 'p')
      AND NOT EXISTS (SELECT FROM member m WHERE m.classid = 'pg_proc'::regclass AND m.objid = p.oid)
),
acl AS (
    SELECT 'schema '||n.nspname AS what, n.nspowner AS owner, coalesce(n.nspacl, acldefault('n', n.nspowner)) AS acl
    FROM pg_namespace n JOIN own USING (oid)
    UNION ALL
    SELECT 'relation '||name, relowner,
        coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, relowner))
    FROM rel WHERE relkind IN ('r', 'p', 'v', 'm', 'S')
    UNION ALL
    SELECT 'column '||name||'.'||a.attname, relowner, a.attacl FROM rel JOIN pg_attribute a ON a.attrelid = rel.oid
    WHERE a.attacl IS NOT NULL AND NOT a.attisdropped
    UNION ALL
    SELECT 'function '||name, proowner, coalesce(proacl, acldefault('f', proowner)) FROM proc
)
SELECT line FROM (
    SELECT 'schema '||oid::regnamespace AS line FROM own
    UNION ALL
    SELECT 'extension '||e.extname||' '||e.extversion FROM pg_extension e JOIN own ON own.oid = e.extnamespace
    UNION ALL
    SELECT concat_ws(' ', 'relation', name, 'kind', relkind, 'persistence '||nullif(relpersistence::text, 'p'),
        'owner '||other, 'options '||reloptions::text, 'replica identity '||nullif(relreplident::text, 'd'),
        CASE WHEN relrowsecurity THEN 'row security' END,
        'partitioned by '||pg_get_partkeydef(oid),
        'partition of '||(SELECT i.inhparent::regclass FROM pg_inherits i WHERE i.inhrelid = rel.oid),
        pg_get_expr(relpartbound, oid),
        'toast '||(SELECT t.reloptions::text FROM pg_class t WHERE t.oid = rel.reltoastrelid))
    FROM rel WHERE relkind <> 'i' AND relkind <> 'I'
    UNION ALL
    SELECT concat_ws(' ', 'column', name||'.'||a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN 'not null' END,
        'collation '||nullif(a.attcollation, t.typcollation)::regcollation,
        'identity '||nullif(a.attidentity::text, ''),
        'generated '||nullif(a.attgenerated::text, ''), 'default '||pg_get_expr(d.adbin, d.adrelid),
        'storage '||nullif(a.attstorage::text, t.typstorage::text), 'compression '||nullif(a.attcompression::text, ''),
        'options '||a.attoptions::text)
    FROM rel JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE relkind IN ('r', 'p', 'v', 'm')
    UNION ALL
    SELECT concat_ws(' ', 'constraint', name||'.'||k.conname, pg_get_constraintdef(k.oid),
        CASE WHEN NOT k.convalidated THEN 'not validated' END)
    FROM rel JOIN pg_constraint k ON k.conrelid = rel.oid WHERE k.contype <> 'n'
    UNION ALL
    SELECT concat_ws(' ', 'index', name, pg_get_indexdef(rel.oid), 'options '||reloptions::text,
        CASE WHEN NOT i.indisvalid THEN 'invalid' END)
    FROM rel JOIN pg_index i ON i.indexrelid = rel.oid
    UNION ALL
    SELECT concat_ws(' ', 'trigger', name||'.'||g.tgname, pg_get_triggerdef(g.oid),
        'enabled '||nullif(g.tgenabled::text, 'O'))
    FROM rel JOIN pg_trigger g ON g.tgrelid = rel.oid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT 'policy '||name||'.'||y.polname||' '||y.polcmd::text||' '||y.polroles::text
    FROM rel JOIN pg_policy y ON y.polrelid = rel.oid
    UNION ALL
    SELECT 'view '||name||E'\n'||pg_get_viewdef(oid) FROM rel WHERE relkind IN ('v', 'm')
    UNION ALL
    SELECT concat_ws(' ', 'sequence', name, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement,
        s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
    FROM rel JOIN pg_sequence s ON s.seqrelid = rel.oid
    UNION ALL
    SELECT concat('function ', name, ' owner '||other, E'\n', pg_get_functiondef(oid)) FROM proc
    UNION ALL
    SELECT 'statistics '||pg_get_statisticsobjdef(x.oid) FROM pg_statistic_ext x JOIN own ON own.oid = x.stxnamespace
    UNION ALL
    SELECT concat_ws(' ', 'type', y.oid::regtype, y.typtype, y.typnotnull, y.typdefault,
        (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid),
        (SELECT string_agg(pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname)
            FROM pg_constraint k WHERE k.contypid = y.oid))
    FROM pg_type y JOIN own ON own.oid = y.typnamespace WHERE y.typtype IN ('d', 'e', 'r')
      AND NOT EXISTS (SELECT FROM member m WHERE m.classid = 'pg_type'::regclass AND m.objid = y.oid)
    UNION ALL
    SELECT concat_ws(' ', 'grant', acl.what, 'to',
        CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END,
        x.privilege_type, CASE WHEN x.is_grantable THEN 'grantable' END)
    FROM acl CROSS JOIN LATERAL aclexplode(acl.acl) x WHERE x.grantee <> acl.owner
    UNION ALL
    SELECT 'comment '||concat_ws('.', name, (SELECT a.attname
            FROM pg_attribute a WHERE a.attrelid = rel.oid AND a.attnum = c.objsubid AND a.attnum > 0))
        ||' '||c.description
    FROM rel JOIN pg_description c ON c.classoid = 'pg_class'::regclass AND c.objoid = rel.oid
    UNION ALL
    SELECT 'comment '||name||' '||c.description
    FROM proc JOIN pg_description c ON c.classoid = 'pg_proc'::regclass AND c.objoid = proc.oid
) all_lines ORDER BY line COLLATE "C"`
