package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
)

// reachable is whether one step of the table in Go leads from one status to
// another.
func reachable(from, to provider.Status) bool {
	return slices.ContainsFunc(provider.Triggers(), func(t provider.Trigger) bool {
		got, err := from.After(t)
		return err == nil && got == to
	})
}

func TestTheDatabaseRefusesWhatTheTableDoesNotHold(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	owner := pgtest.Owner(t, s.pool)
	for _, from := range provider.Statuses() {
		for _, to := range provider.Statuses() {
			err := pg.InTx(t.Context(), owner, pgx.TxOptions{}, func(tx pgx.Tx) error {
				for _, sql := range []string{
					`ALTER TABLE provider DISABLE TRIGGER USER`,
					fmt.Sprintf(`UPDATE provider SET status = '%s'`, from),
					`ALTER TABLE provider ENABLE TRIGGER USER`,
				} {
					if _, err := tx.Exec(t.Context(), sql); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			// In the application's role.
			_, err = s.pool.Exec(t.Context(), `UPDATE provider SET status = $2 WHERE provider_id = $1`, a.ID, to)
			if want := from == to || reachable(from, to); want != (err == nil) {
				t.Errorf("%s to %s: err == nil: got %t, want %t", from, to, err == nil, want)
			}
			var refused *pgconn.PgError
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("%s to %s: got the error %v, want a %T", from, to, err, refused)
			} else if err != nil && refused.Code != "23514" {
				t.Errorf(`%s to %s: refused.Code: got %q, want "23514"`, from, to, refused.Code)
			}
		}
	}
	for _, bad := range []string{"offline", "", "ACTIVE"} {
		if _, err := s.pool.Exec(t.Context(), `UPDATE provider SET status = $2 WHERE provider_id = $1`,
			a.ID, bad); err == nil {
			t.Errorf("status %q is kept", bad)
		}
	}
	if _, err := s.pool.Exec(t.Context(), `
		INSERT INTO provider (provider_id, name, status, region, created_at)
		VALUES (gen_random_uuid(), 'x', 'active', '', now())`); err == nil {
		t.Error("a provider begins as active")
	}
}

func TestTheVersionBeforeWritesStatusesThatLast(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	// What the version before does, statement by statement.
	old := func(to provider.Status) {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), `UPDATE provider SET status = $2 WHERE provider_id = $1`,
			a.ID, to); err != nil {
			t.Fatal(err)
		}
	}
	stays := func(what string, want provider.Status) provider.Account {
		t.Helper()
		for range 2 {
			if changed, err := d.Sweep(t.Context()); err != nil {
				t.Fatalf("%s: got the error %v, want none", what, err)
			} else if len(changed) != 0 {
				t.Fatalf("%s: a sweep changes: len(changed): got %d, want 0, in %+v", what, len(changed), changed)
			}
		}
		got, err := d.Get(t.Context(), a.ID)
		if err != nil {
			t.Fatalf("%s: got the error %v, want none", what, err)
		}
		if got.Status != want {
			t.Fatalf("%s: Status: got %q, want %q", what, got.Status, want)
		}
		return got
	}
	old(provider.Active)
	if got := stays("activated", provider.Active); got.Facts.CollateralAt.IsZero() ||
		!got.Facts.BenchmarkPassed(time.Now()) || got.ActiveSince.IsZero() || got.InProbation() {
		t.Errorf("activated: %+v", got)
	}
	old(provider.Pending)
	stays("taken back", provider.Pending)
	// What the new version had activated, with all its facts, stays down too.
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Active, ""); err != nil {
		t.Fatal(err)
	}
	yes := true
	if _, err := d.Confirm(t.Context(), a.ID, provider.Confirmation{GPUWaived: &yes}, ""); err != nil {
		t.Fatal(err)
	}
	old(provider.Pending)
	switch got := stays("a new one taken back", provider.Pending); {
	case got.Facts.CollateralAt.IsZero():
		t.Error("a new one taken back: got.Facts.CollateralAt.IsZero(): got true, want false")
	case !got.Facts.BenchmarkAt.IsZero():
		t.Error("a new one taken back: got.Facts.BenchmarkAt.IsZero(): got false, want true")
	case !got.ActiveSince.IsZero():
		t.Error("a new one taken back: got.ActiveSince.IsZero(): got false, want true")
	}
	old(provider.Active)
	stays("activated again", provider.Active)
	// What the new version takes back keeps the facts that it writes.
	no := false
	switch got, err := d.Confirm(t.Context(), a.ID, provider.Confirmation{Collateral: &no}, ""); {
	case err != nil:
		t.Errorf("collateral withdrawn: got the error %v, want none", err)
	case got.Status != provider.Pending:
		t.Errorf("collateral withdrawn: Status: got %q, want %q", got.Status, provider.Pending)
	case got.Facts.BenchmarkAt.IsZero():
		t.Error("collateral withdrawn: got.Facts.BenchmarkAt.IsZero(): got true, want false")
	}
	if got := stays("collateral withdrawn", provider.Pending); got.Facts.BenchmarkAt.IsZero() {
		t.Errorf("collateral withdrawn: %+v", got)
	}
}

func TestAChangeThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	_, err := s.Change(t.Context(), a.ID, func(a *provider.Account) ([]provider.Entry, error) {
		a.Name = "Other"
		return []provider.Entry{
			{At: time.Now(), What: "suspend", From: provider.Pending, To: provider.Suspended, By: provider.ByOperator},
			{At: time.Now(), What: "nonsense", From: provider.Suspended, To: provider.Active, By: provider.ByOperator},
		}, nil
	})
	if err == nil {
		t.Fatal("a jump that the table does not hold is kept")
	}
	got, err := d.Get(context.WithoutCancel(t.Context()), a.ID)
	history, _, _ := s.History(t.Context(), a.ID, 0, 10)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.Status != provider.Pending:
		t.Errorf("Status: got %q, want %q", got.Status, provider.Pending)
	case got.Name != "Farm":
		t.Errorf(`Name: got %q, want "Farm"`, got.Name)
	case len(history) != 0:
		t.Errorf("len(history): got %d, want 0, in %v", len(history), history)
	}
}
