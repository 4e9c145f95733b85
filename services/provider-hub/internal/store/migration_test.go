package store

import (
	"crypto/rand"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
)

// before is the schema before a migration.
func before(t *testing.T, version string) fs.FS {
	t.Helper()
	earlier := fstest.MapFS{}
	err := fs.WalkDir(Migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if name, ok := strings.CutPrefix(path, "migrations/"); err != nil || entry.IsDir() || ok && name >= version {
			return err
		}
		text, err := fs.ReadFile(Migrations, path)
		earlier[path] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return earlier
}

func TestTheMigrationOfReferencesKnowsWhoWasActiveBefore(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Schema, Role, before(t, "00004"))
	pool := pgtest.Open(t, url, Schema, Role)
	accounts := map[string]string{
		"01890000-0000-7000-8000-000000000001": "pending", "01890000-0000-7000-8000-000000000002": "active",
	}
	for id, was := range accounts {
		for _, sql := range []string{
			`INSERT INTO provider (provider_id, name, status, region, created_at) VALUES ($1, $2, 'pending', '', now())`,
			`INSERT INTO provider_status_change (provider_id, from_status, to_status) VALUES ($1, 'pending', $2),
				($1, $2, 'pending')`,
		} {
			if _, err := pool.Exec(t.Context(), sql, id, was); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := pg.Migrate(t.Context(), url, Schema, Role, Migrations); err != nil {
		t.Fatal(err)
	}
	d := provider.NewDirectory(New(pool), provider.SecretsOf(apikey.Pepper{1}), site, clock.System, rand.Reader)
	for text, was := range accounts {
		id, err := ids.ParseProvider(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.SetReference(t.Context(), id, true, "")
		if refused := fault.Is(err, fault.TransitionNotAllowed); refused != (was == "active") {
			t.Errorf("a provider that was %s: refused: got %t, want %t: %v", was, refused, !refused, err)
		}
	}
}

func TestWhatOperatorsDidBeforeIsListedToo(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Schema, Role, before(t, "00010"))
	pool := pgtest.Open(t, url, Schema, Role)
	for _, sql := range []string{
		`INSERT INTO provider (provider_id, name, status, region, created_at)
			VALUES ('01890000-0000-7000-8000-000000000001', 'Farm', 'pending', '', now())`,
		`INSERT INTO provider_status_change (provider_id, from_status, to_status, what, changed_by, reason, changed_at) VALUES
			('01890000-0000-7000-8000-000000000001', 'pending', 'pending', 'gpu_waived', 'operator:alice@1', 'seen',
				'2026-05-01'),
			('01890000-0000-7000-8000-000000000001', 'pending', 'pending', 'owner_proven', 'provider', '', '2026-05-02'),
			('01890000-0000-7000-8000-000000000001', 'pending', 'pending', 'gpu_waiver_withdrawn', 'operator', '',
				'2026-05-03')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := pg.Migrate(t.Context(), url, Schema, Role, Migrations); err != nil {
		t.Fatal(err)
	}
	list, err := New(pool).Acts(t.Context(), acts.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, a.At.Format(time.DateOnly)+" "+a.Actor+" "+a.Action)
	}
	want := []string{"2026-05-03 operator gpu_waiver_withdrawn", "2026-05-01 operator:alice@1 gpu_waived"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
