package store_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/store"
)

// before is the schema before a migration.
func before(t *testing.T, version string) fs.FS {
	t.Helper()
	earlier := fstest.MapFS{}
	err := fs.WalkDir(store.Migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if name, ok := strings.CutPrefix(path, "migrations/"); err != nil || entry.IsDir() || ok && name >= version {
			return err
		}
		text, err := fs.ReadFile(store.Migrations, path)
		earlier[path] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return earlier
}

// done are acts of operators as a settlement before the list kept them, and what others did.
var done = []string{
	`INSERT INTO payout (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address, requested_at)
		VALUES ('01890000-0000-7000-8000-000000000001', '01890000-0000-7000-8000-000000000002', 8453, 20000000000,
			1000000000, decode(repeat('01', 20), 'hex'), '2026-05-01')`,
	`INSERT INTO payout_change (payout_id, revision, from_state, to_state, cause, actor, reason, changed_at) VALUES
		('01890000-0000-7000-8000-000000000001', 2, 'requested', 'requested', 'reserve', 'platform', '', '2026-05-01'),
		('01890000-0000-7000-8000-000000000001', 3, 'requested', 'approved', 'approve', 'operator:ann@1', 'due',
			'2026-05-02')`,
	`INSERT INTO batch_allowance (day, actor, reason, at) VALUES ('2026-05-03', 'operator:ann@1', 'seen', '2026-05-04')`,
	`INSERT INTO batch_unblock (day, provider_id, cause, actor, reason, at) VALUES
		('2026-05-03', '01890000-0000-7000-8000-000000000002', 'lines', 'platform', 'equal', '2026-05-04'),
		('2026-05-03', '01890000-0000-7000-8000-000000000002', 'sums', 'operator', 'seen', '2026-05-05')`,
	`INSERT INTO adoption (chain_id, actor, reason, at) VALUES (1, 'operator:bob@2', 'lost', '2026-05-06')`,
	`INSERT INTO sending_halt (chain_id, cause, detail, lifted_at, lifted_by, reason) VALUES
		(1, 'reserves', 'x', '2026-05-07', 'platform', 'equal'),
		(1, 'operator', 'x', '2026-05-08', 'operator:bob@2', 'over'),
		(1, 'nonce_ahead', 'x', NULL, NULL, NULL)`,
	`INSERT INTO chain_halt (chain_id, block, was_hash, is_hash, halted_at, lifted_at, lifted_by, reason, accepted)
		VALUES (1, 7, decode(repeat('01', 32), 'hex'), decode(repeat('02', 32), 'hex'), '2026-05-08', '2026-05-09',
			'operator:bob@2', repeat('so it is ', 100), decode(repeat('02', 32), 'hex'))`,
}

func TestWhatOperatorsDidBeforeIsListedToo(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, store.Schema, store.Role, before(t, "00023"))
	pool := pgtest.Open(t, url, store.Schema, store.Role)
	err := pgx.BeginFunc(t.Context(), pgtest.Owner(t, pool), func(tx pgx.Tx) error {
		for _, sql := range append([]string{`SET LOCAL session_replication_role = replica`}, done...) {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Migrate(t.Context(), url, store.Schema, store.Role, store.Migrations); err != nil {
		t.Fatal(err)
	}
	list, err := store.New(pool).Acts(t.Context(), acts.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, a.At.Format(time.DateOnly)+" "+a.Actor+" "+a.Action+" "+a.Subject)
	}
	want := []string{
		"2026-05-09 operator:bob@2 lift_chain_halt 1", "2026-05-08 operator:bob@2 lift_sending_halt 1",
		"2026-05-06 operator:bob@2 adopt 1",
		"2026-05-05 operator unblock_provider 01890000-0000-7000-8000-000000000002",
		"2026-05-04 operator:ann@1 allow_day 2026-05-03",
		"2026-05-02 operator:ann@1 approve_payout 01890000-0000-7000-8000-000000000001",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
