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
// another, where the provider's only verdict is in a state: a verdict that stands
// allows an Expel, and a reversed one a Reinstate.
func reachable(from, to provider.Status, verdict provider.VerdictState) bool {
	return slices.ContainsFunc(provider.Triggers(), func(t provider.Trigger) bool {
		got, err := from.After(t)
		return err == nil && got == to && (t != provider.Expel || verdict == provider.VerdictStands) &&
			(t != provider.Reinstate || verdict == provider.VerdictWasReversed)
	})
}

// verdicts are the statements that leave a provider with one verdict in a state.
var verdicts = map[provider.VerdictState]string{
	provider.VerdictUnknown: `DELETE FROM provider_expulsion`,
	provider.VerdictStands: `INSERT INTO provider_expulsion (verdict_id, provider_id, from_status, reason, expelled_at)
		SELECT gen_random_uuid(), provider_id, 'active', '', now() FROM provider`,
	provider.VerdictWasReversed: `
		INSERT INTO provider_expulsion (verdict_id, provider_id, from_status, reason, expelled_at, reversed_at)
		SELECT gen_random_uuid(), provider_id, 'active', '', now(), now() FROM provider`,
	provider.VerdictOver: `
		INSERT INTO provider_expulsion (verdict_id, provider_id, from_status, reason, expelled_at, reversed_at, over_at)
		SELECT gen_random_uuid(), provider_id, 'active', '', now(), now(), now() FROM provider`,
}

func TestTheDatabaseRefusesWhatTheTableDoesNotHold(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	owner := pgtest.Owner(t, s.pool)
	for verdict, kept := range verdicts {
		for _, from := range provider.Statuses() {
			for _, to := range provider.Statuses() {
				err := pg.InTx(t.Context(), owner, pgx.TxOptions{}, func(tx pgx.Tx) error {
					for _, sql := range []string{
						`ALTER TABLE provider DISABLE TRIGGER USER`,
						fmt.Sprintf(`UPDATE provider SET status = '%s'`, from),
						`ALTER TABLE provider ENABLE TRIGGER USER`,
						verdicts[provider.VerdictUnknown], kept,
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
				if want := from == to || reachable(from, to, verdict); want != (err == nil) {
					t.Errorf("%s to %s, verdict %q: err == nil: got %t, want %t", from, to, verdict, err == nil, want)
				}
				if err != nil && !refusedByCheck(err) {
					t.Errorf("%s to %s, verdict %q: got the error %v, want a check_violation", from, to, verdict, err)
				}
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

// refusedByCheck reports whether the database refused a statement by a CHECK, or by a
// trigger that says so.
func refusedByCheck(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23514"
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
