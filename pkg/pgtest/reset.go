package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// resetTimeout bounds each statement of a reset. A database that cannot be reset within
// it is dropped.
const resetTimeout = 5 * time.Second

// state is what a database of a template must be restored to before the next test gets
// it.
type state struct {
	catalog   string             // see fingerprint
	seeds     map[string][]byte  // tables that the migrations filled, with their rows as COPY writes them
	sequences map[uint32]numbers // by their object ids
}

// numbers is the position of a sequence.
type numbers struct {
	Last  int64 // or the first one, when none was taken
	Taken bool
}

// learnState reads the state of the database at url.
func learnState(ctx context.Context, url string) (*state, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to the template database: %w", err)
	}
	st, err := readState(ctx, conn)
	return st, errors.Join(err, conn.Close(ctx))
}

func readState(ctx context.Context, conn *pgx.Conn) (*state, error) {
	tables, err := usedTables(ctx, conn)
	if err != nil {
		return nil, err
	}
	st := &state{seeds: map[string][]byte{}}
	for _, table := range tables {
		if st.seeds[table], err = rowsOf(ctx, conn, table); err != nil {
			return nil, err
		}
	}
	if st.sequences, err = readSequences(ctx, conn); err != nil {
		return nil, err
	}
	st.catalog, err = readCatalog(ctx, conn)
	return st, err
}

// restore restores the database at url to st. It returns an error when it cannot, because
// a test has changed more than rows.
func (st *state) restore(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	return errors.Join(st.restoreOn(ctx, conn), conn.Close(ctx))
}

func (st *state) restoreOn(ctx context.Context, conn *pgx.Conn) error {
	// No trigger runs and no foreign key is checked, because the restored rows have been
	// checked before.
	_, err := conn.Exec(ctx, fmt.Sprintf(`SET statement_timeout = %d; SET session_replication_role = replica;
		DELETE FROM pg_statistic WHERE starelid >= %d`, resetTimeout.Milliseconds(), firstOwnOID))
	if err != nil {
		return fmt.Errorf("prepare the reset: %w", err)
	}
	if err := st.restoreRows(ctx, conn); err != nil {
		return err
	}
	if err := st.restoreSequences(ctx, conn); err != nil {
		return err
	}
	catalog, err := readCatalog(ctx, conn)
	if err == nil && catalog != st.catalog {
		err = errors.New("the test changed the schema")
	}
	return err
}

func (st *state) restoreRows(ctx context.Context, conn *pgx.Conn) error {
	used, err := usedTables(ctx, conn)
	if err != nil {
		return err
	}
	var empty []string
	for _, table := range used {
		if seed, ok := st.seeds[table]; ok {
			rows, err := rowsOf(ctx, conn, table)
			if err != nil {
				return err
			}
			if bytes.Equal(rows, seed) {
				continue
			}
		}
		empty = append(empty, table)
	}
	if len(empty) > 0 {
		// CASCADE, because tables that reference one of these may be unchanged.
		if _, err := conn.Exec(ctx, "TRUNCATE "+strings.Join(empty, ", ")+" CASCADE"); err != nil {
			return fmt.Errorf("empty the tables: %w", err)
		}
	}
	for table, seed := range st.seeds {
		rows, err := rowsOf(ctx, conn, table)
		if err != nil {
			return err
		}
		if bytes.Equal(rows, seed) {
			continue
		}
		if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(seed), "COPY "+table+" FROM STDIN"); err != nil {
			return fmt.Errorf("bring back the rows of %s: %w", table, err)
		}
	}
	return nil
}

func (st *state) restoreSequences(ctx context.Context, conn *pgx.Conn) error {
	now, err := readSequences(ctx, conn)
	if err != nil || maps.Equal(now, st.sequences) {
		return err
	}
	for id, want := range st.sequences {
		if now[id] == want {
			continue
		}
		if _, err := conn.Exec(ctx, `SELECT setval($1::oid::regclass, $2, $3)`, id, want.Last, want.Taken); err != nil {
			return fmt.Errorf("set a sequence back: %w", err)
		}
	}
	return nil
}

// firstOwnOID is the first object id that initdb does not use.
const firstOwnOID = 16384

// usedTables returns the tables that have a page, even of deleted rows, or statistics. An
// empty table that was never used has neither.
func usedTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT format('%I.%I', n.nspname, c.relname)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND c.oid >= $1 AND (pg_relation_size(c.oid) > 0 OR c.reltuples >= 0) ORDER BY c.oid`,
		firstOwnOID)
	if err != nil {
		return nil, fmt.Errorf("list the tables in use: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the tables in use: %w", err)
	}
	return tables, nil
}

func rowsOf(ctx context.Context, conn *pgx.Conn, table string) ([]byte, error) {
	var b bytes.Buffer
	if _, err := conn.PgConn().CopyTo(ctx, &b, "COPY "+table+" TO STDOUT"); err != nil {
		return nil, fmt.Errorf("read the rows of %s: %w", table, err)
	}
	return b.Bytes(), nil
}

func readSequences(ctx context.Context, conn *pgx.Conn) (map[uint32]numbers, error) {
	all := map[uint32]numbers{}
	var id uint32
	var at numbers
	rows, err := conn.Query(ctx, `SELECT seqrelid, coalesce(last, seqstart), last IS NOT NULL
		FROM pg_sequence, pg_sequence_last_value(seqrelid) last`)
	if err != nil {
		return nil, fmt.Errorf("read the sequences: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&id, &at.Last, &at.Taken}, func() error {
		all[id] = at
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the sequences: %w", err)
	}
	return all, nil
}

// readCatalog returns a fingerprint of all definitions in a database, and of its
// settings. Every row of every catalog counts, by its place and by the transaction that
// wrote it, so a change that was undone counts too. Of pg_class only the definitions
// count, because TRUNCATE writes there. Temporary schemas are left out: they stay in a
// database for good, and nobody sees them.
func readCatalog(ctx context.Context, conn *pgx.Conn) (string, error) {
	var all, sum string
	err := conn.QueryRow(ctx, `SELECT string_agg(format(
			'SELECT %L, count(*), bit_xor(hashtidextended(ctid, xmin::text::bigint))::text FROM %I%s', relname, relname,
			CASE WHEN relname = 'pg_namespace' THEN ' WHERE nspname !~ ''^pg_(toast_)?temp_''' END), ' UNION ALL ')
		FROM pg_class WHERE relkind = 'r' AND NOT relisshared AND relnamespace = 'pg_catalog'::regnamespace
			AND relname NOT IN ('pg_class', 'pg_statistic')`).Scan(&all)
	if err != nil {
		return "", fmt.Errorf("list the catalogs: %w", err)
	}
	err = conn.QueryRow(ctx, `WITH one (name, rows, hash) AS (`+all+`
		UNION ALL
		SELECT 'pg_class', count(*), bit_xor(hashtextextended(ROW(oid, relname, relnamespace, reltype, reloftype, relowner,
			relam, reltablespace, relpersistence, relkind, relnatts, relchecks, relhasrules, relhastriggers, relrowsecurity,
			relforcerowsecurity, relreplident, relispartition, relacl, reloptions, relpartbound)::text, 0))::text FROM pg_class
		UNION ALL
		SELECT 'settings', count(*), md5(string_agg(s::text, ' ' ORDER BY s::text)) FROM pg_db_role_setting s
			JOIN pg_database d ON d.oid = s.setdatabase WHERE d.datname = current_database()
		UNION ALL
		SELECT 'database', count(*), min(concat_ws(' ', datacl, datconnlimit, datistemplate, datallowconn))
			FROM pg_database WHERE datname = current_database())
		SELECT string_agg(concat_ws(' ', name, rows, hash), E'\n' ORDER BY name) FROM one`).Scan(&sum)
	if err != nil {
		return "", fmt.Errorf("read the catalogs: %w", err)
	}
	return sum, nil
}
