package store

import (
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/pgtest"
	settlementtables "svc.internal/services/settlement/tables"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// What the copy has not: rows of a table that counts by itself, of one that computes a column, and of one in parts.
const (
	earlier = `SET LOCAL session_replication_role = replica;
		SELECT settlement.ensure_batch_partition('2026-03-04');
		INSERT INTO settlement.quarantine (reason, payload) VALUES ('forged', '\x01');
		INSERT INTO settlement.reserve (subject, chain_id, read_place, held, owed, in_row, confirmed)
			VALUES ('8453:usdc', 8453, 7, 1, 2, 1, false);
		INSERT INTO settlement.batch_line (day, provider_id, line, kind, at, account, month, amount, entry_kind, business_id)
			VALUES ('2026-03-04', gen_random_uuid(), 1, 'entry', now(), 'l:provider:accrued', '', 5, 'goodwill', 'a')`
	later = `SET LOCAL session_replication_role = replica;
		INSERT INTO settlement.quarantine (reason, payload) VALUES ('forged', '\x02');
		UPDATE settlement.reserve SET held = 3;
		DELETE FROM settlement.batch_line;
		INSERT INTO settlement.payout (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address, state,
				requested_at, reserved_entry, final_entry, amount)
			VALUES (gen_random_uuid(), gen_random_uuid(), 8453, 12000000000, 1000000000, decode(repeat('77', 20), 'hex'),
				'confirmed', now(), gen_random_uuid(), gen_random_uuid(), 11000000)`
)

func TestACopyOfSettlementIsPutBackWhole(t *testing.T) {
	t.Parallel()
	tables := settlementtables.Tables()
	b, err := Open(t.Context(), pgtest.Database(t, tables.Schema, tables.Role, tables.Migrations))
	must(t, err)
	t.Cleanup(b.Close)
	b.exec(t, earlier)
	before := b.rows(t)
	must(t, b.Keep(t.Context()))
	must(t, b.Keep(t.Context())) // in place of the first
	b.exec(t, later)
	if b.rows(t) == before {
		t.Fatal("nothing has changed behind the copy")
	}
	lost, err := b.Lost(t.Context())
	must(t, err)
	if want := []int64{8453}; !slices.Equal(lost, want) {
		t.Errorf("chains whose payouts are lost: got %v, want %v", lost, want)
	}
	must(t, b.PutBack(t.Context()))
	if got := b.rows(t); got != before {
		t.Errorf("the rows: got\n%s\nwant\n%s", got, before)
	}
	var next int64
	must(t, b.pool.QueryRow(t.Context(), `INSERT INTO settlement.quarantine (reason, payload) VALUES ('forged', '\x03')
		RETURNING id`).Scan(&next))
	if next != 2 {
		t.Errorf("the next number: got %d, want 2", next)
	}
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM settlement.reserve`); err == nil {
		t.Error("a row that is kept for ever is deleted: got no error, want the trigger's")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// exec executes statements in one transaction.
func (b *Databases) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql)
	must(t, err)
}

// rows are all rows of settlement.
func (b *Databases) rows(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	must(t, b.Dump(t.Context(), "settlement", &out))
	_, rows, _ := strings.Cut(out.String(), "\n") // without the time of the dump
	return rows
}
