package store_test

import (
	"io/fs"
	"path"
	"testing"
	"testing/fstest"

	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/store"
)

// TestTheIndexOfProvidersUsageIsFinishedAfterABreak has the migration go on where it was broken off, after a replica
// has made a partition.
func TestTheIndexOfProvidersUsageIsFinishedAfterABreak(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.exec(t, `DROP INDEX usage_settlement_of_provider`)
	e.exec(t, `CREATE INDEX usage_settlement_accrual ON usage_settlement (day, provider_id) INCLUDE (payout)`)
	e.exec(t, `DELETE FROM schema_migrations WHERE version_id >= 51`)
	e.exec(t, `CREATE INDEX usage_settlement_of_provider ON ONLY usage_settlement
		(day, provider_id, source, settled_at) INCLUDE (payout, vendor)`)
	if made := scan[int](t, e, `SELECT ensure_usage_partitions(0, 31)`); made == 0 {
		t.Fatal("partitions that a replica makes: got none, want one at least")
	}
	url := e.owner.Config().ConnConfig.ConnString()
	if err := pg.Migrate(t.Context(), url, store.Schema, store.Role, migrationsUpTo(t, "00051")); err != nil {
		t.Fatal(err)
	}
	if !scan[bool](t, e, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'usage_settlement_of_provider'::regclass`) {
		t.Error("the index is whole: got false, want true")
	}
	const twice = `SELECT count(*) FROM (SELECT i.indrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_inherits h ON h.inhrelid = i.indrelid AND h.inhparent = 'usage_settlement'::regclass
		WHERE pg_get_indexdef(c.oid) LIKE '%(day, provider_id, source, settled_at)%'
		GROUP BY 1 HAVING count(*) > 1) AS of_partition`
	if n := scan[int64](t, e, twice); n != 0 {
		t.Errorf("partitions that have the index twice: got %d, want 0", n)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM pg_class WHERE relname = 'usage_settlement_accrual'`); n != 0 {
		t.Errorf("indexes that were replaced: got %d, want 0", n)
	}
}

// migrationsUpTo are the migrations up to one of them, with all functions and views.
func migrationsUpTo(t *testing.T, last string) fs.FS {
	t.Helper()
	some := fstest.MapFS{}
	err := fs.WalkDir(store.Migrations, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file := path.Base(name)
		if path.Base(path.Dir(name)) == "migrations" && path.Ext(file) == ".sql" && file[:5] > last {
			return nil
		}
		text, err := fs.ReadFile(store.Migrations, name)
		some[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return some
}
