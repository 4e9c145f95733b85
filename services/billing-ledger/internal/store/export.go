package store

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ExportVersion is the version of the export's format.
const ExportVersion = 1

// progressRows is the number of rows between two calls of progress.
const progressRows = 10_000

// exported are the first tables of an export, in their order. The other tables follow by
// name.
var exported = []string{
	"account", "wallet", "chart", "posting_rule", "entry", "posting", "hold",
	"usage_settlement", "request_report", "renewal",
	"orphan_review", "quarantine", "key_inflight", "key_rate",
}

// secret has the columns that an export leaves out: hashes of keys, passwords and tokens,
// the secrets of hubs, of the ledger, of webhooks and of operators' codes, and sealed answers.
var secret = map[string][]string{
	"consumer_key": {"hash", "old_hash"}, "idempotency_claim": {"sealed"}, "app_user": {"password_hash"},
	"user_session": {"token_sha256"}, "usage_key": {"secret"}, "ledger_secret": {"secret"},
	"refresh_token": {"token_sha256", "sealed"}, "letter_token": {"token_sha256"},
	"webhook": {"secret", "previous", "earlier"}, "operator": {"ticket_sha256", "password_hash", "totp_sealed"},
	"operator_session": {"token_sha256"}, "visitor_session": {"secret_sha256"},
}

// Export writes every row of every table as lines of JSON, from one view of the data, row
// by row and in bounded memory. The first line is {"export":1,…} with the version, the
// time and the last seal. Each further line is {"table":…,"row":{…}}. The last line is
// {"end":true,"rows":N}, so that a file that was cut off is recognised. progress gets the
// table and the number of rows so far.
func (s *Store) Export(ctx context.Context, out io.Writer, progress func(table string, rows int64)) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	tx, err := s.pool.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // the transaction only read
	w := bufio.NewWriterSize(out, 1<<16)
	if err := exportAll(ctx, tx, w, progress); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

func exportAll(ctx context.Context, tx pgx.Tx, w io.Writer, progress func(string, int64)) error {
	var at time.Time
	var seal []byte
	if err := tx.QueryRow(ctx, `SELECT now(), (SELECT root FROM seal ORDER BY day DESC LIMIT 1)`).Scan(&at,
		&seal); err != nil {
		return fmt.Errorf("read the last seal: %w", err)
	}
	enc := json.NewEncoder(w)
	if err := enc.Encode(exportHeader{ExportVersion, at.UTC(), Schema, hex.EncodeToString(seal)}); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	tables, err := exportTables(ctx, tx)
	if err != nil {
		return err
	}
	var total int64
	for _, t := range tables {
		n, err := exportTable(ctx, tx, w, t, func(rows int64) { progress(t.name, total+rows) })
		if err != nil {
			return fmt.Errorf("export %s: %w", t.name, err)
		}
		total += n
	}
	if err := enc.Encode(exportEnd{true, total}); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// exportHeader is the first line.
type exportHeader struct {
	Export int       `json:"export"`
	At     time.Time `json:"at"`
	Schema string    `json:"schema"`
	Seal   string    `json:"seal"`
}

// exportEnd is the last line.
type exportEnd struct {
	End  bool  `json:"end"`
	Rows int64 `json:"rows"`
}

// exportedTable is a table with its columns and the columns of its primary key.
type exportedTable struct {
	name         string
	columns, key []string
}

// exportTables lists the tables of the database, so that a table that is added later is
// not forgotten.
func exportTables(ctx context.Context, tx pgx.Tx) ([]exportedTable, error) {
	rows, err := tx.Query(ctx, `SELECT c.relname::text,
			(SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a
				WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
			(SELECT array_agg(a.attname::text ORDER BY k.n) FROM pg_index i
				CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
				JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
				WHERE i.indrelid = c.oid AND i.indisprimary)
		FROM pg_class c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.relname NOT LIKE 'schema\_%'
		ORDER BY c.relname`)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (exportedTable, error) {
		var t exportedTable
		err := row.Scan(&t.name, &t.columns, &t.key)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	place := func(t exportedTable) int {
		if i := slices.Index(exported, t.name); i >= 0 {
			return i
		}
		return len(exported)
	}
	slices.SortStableFunc(tables, func(a, b exportedTable) int { return place(a) - place(b) })
	return tables, nil
}

func exportTable(ctx context.Context, tx pgx.Tx, w io.Writer, t exportedTable, progress func(int64)) (int64, error) {
	columns := slices.DeleteFunc(slices.Clone(t.columns), func(c string) bool {
		return slices.Contains(secret[t.name], c)
	})
	sql := `SELECT row_to_json(t)::text FROM (SELECT ` + quoted(columns) + ` FROM ` + quoted([]string{t.name}) +
		` ORDER BY ` + quoted(t.key) + `) t`
	if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`,
		fmt.Sprint(sealTimeout.Milliseconds())); err != nil {
		return 0, fmt.Errorf("set the timeout: %w", err)
	}
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return 0, fmt.Errorf("read rows: %w", err)
	}
	defer rows.Close()
	prefix := `{"table":"` + t.name + `","row":`
	var n int64
	for rows.Next() {
		// One write for each line keeps the bound of the buffer in one place.
		line := append(append([]byte(prefix), rows.RawValues()[0]...), '}', '\n')
		if _, err := w.Write(line); err != nil {
			return 0, fmt.Errorf("write the export: %w", err)
		}
		if n++; n%progressRows == 0 {
			progress(n)
		}
	}
	progress(n)
	return n, rows.Err()
}

// quoted returns a list of quoted names for SQL.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = pgx.Identifier{n}.Sanitize()
	}
	return strings.Join(out, ", ")
}
