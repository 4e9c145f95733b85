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
				t.Errorf("%s to %s: %v, by the table %v", from, to, err, want)
			}
			var refused *pgconn.PgError
			if err != nil && (!errors.As(err, &refused) || refused.Code != "23514") {
				t.Errorf("%s to %s: %v", from, to, err)
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
			if changed, err := d.Sweep(t.Context()); err != nil || len(changed) != 0 {
				t.Fatalf("%s: a sweep changes %+v, %v", what, changed, err)
			}
		}
		got, err := d.Get(t.Context(), a.ID)
		if err != nil || got.Status != want {
			t.Fatalf("%s: %+v, %v", what, got, err)
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
	if got := stays("a new one taken back", provider.Pending); got.Facts.CollateralAt.IsZero() ||
		!got.Facts.BenchmarkAt.IsZero() || !got.ActiveSince.IsZero() {
		t.Errorf("a new one taken back: %+v", got)
	}
	old(provider.Active)
	stays("activated again", provider.Active)
	// What the new version takes back keeps the facts that it writes.
	no := false
	if got, err := d.Confirm(t.Context(), a.ID, provider.Confirmation{Collateral: &no}, ""); err != nil ||
		got.Status != provider.Pending || got.Facts.BenchmarkAt.IsZero() {
		t.Errorf("collateral withdrawn: %+v, %v", got, err)
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
	if err != nil || got.Status != provider.Pending || got.Name != "Farm" || len(history) != 0 {
		t.Errorf("%+v, %v, %v", got, err, history)
	}
}
