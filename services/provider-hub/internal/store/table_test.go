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
	"svc.internal/services/provider-hub/internal/provider/providertest"
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
						fmt.Sprintf(`UPDATE provider SET status = '%s', collateral_at = now(), benchmark_at = now()`, from),
						`ALTER TABLE provider ENABLE TRIGGER USER`,
						`DELETE FROM provider_suspension`,
						`INSERT INTO provider_suspension (provider_id, cause, since)
							SELECT provider_id, 'admin', now() FROM provider WHERE status = 'suspended'`,
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

func TestAStatusThatIsWrittenAloneActivatesNobody(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	facts := map[string]string{"collateral": "collateral_at", "a benchmark": "benchmark_at"}
	for name, column := range facts {
		a := create(t, d, "Farm")
		for _, other := range facts {
			if other == column {
				continue
			}
			if _, err := s.pool.Exec(t.Context(), `UPDATE provider SET `+other+` = now() WHERE provider_id = $1`,
				a.ID); err != nil {
				t.Fatal(err)
			}
		}
		wantRefused(t, s, "active without "+name, `UPDATE provider SET status = 'active' WHERE provider_id = $1`, a.ID)
		providertest.Activate(t, d, a.ID, time.Now())
		wantRefused(t, s, "active, and its fact is taken away: "+name,
			`UPDATE provider SET `+column+` = NULL WHERE provider_id = $1`, a.ID)
	}
}

func TestFactsMayFollowAStatusWithinATransaction(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	err := pg.InTx(t.Context(), s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`UPDATE provider SET status = 'active' WHERE provider_id = $1`,
			`UPDATE provider SET collateral_at = now(), benchmark_at = now() WHERE provider_id = $1`,
		} {
			if _, err := tx.Exec(t.Context(), sql, a.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}

func TestAReturnToPendingUsesTheBenchmarkUpUnlessItIsWrittenSo(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	providertest.Activate(t, d, a.ID, time.Now())
	if _, err := s.pool.Exec(t.Context(), `UPDATE provider SET status = 'pending' WHERE provider_id = $1`,
		a.ID); err != nil {
		t.Fatal(err)
	}
	got, err := d.Get(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Facts.BenchmarkAt.IsZero() {
		t.Errorf("a status that is written alone: benchmark: got %v, want none", got.Facts.BenchmarkAt)
	}
	providertest.Activate(t, d, a.ID, time.Now())
	no := false
	if got, err = d.Confirm(t.Context(), a.ID, provider.Confirmation{Collateral: &no}, ""); err != nil {
		t.Fatal(err)
	}
	if got.Status != provider.Pending {
		t.Errorf("collateral withdrawn: status: got %q, want %q", got.Status, provider.Pending)
	}
	if got, err = d.Get(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if got.Facts.BenchmarkAt.IsZero() {
		t.Error("collateral withdrawn: benchmark: got none, want the one that it had")
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
