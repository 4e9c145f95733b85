package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/store"
)

// of is a draft for a provider's model.
func of(t *testing.T, provider ids.ProviderID, model string, kind penalty.Kind, share int32) penalty.Draft {
	t.Helper()
	d := draft(t)
	d.ProviderID, d.ModelID, d.Kind, d.ShareBasisPoints = provider, model, kind, share
	return d
}

func TestOnePenaltyOfAProviderModelAndKindIsOpenAtATime(t *testing.T) {
	t.Parallel()
	e := setup(t)
	provider := ids.ProviderID(newID(t))
	first, err := e.keepers[0].Open(t.Context(), of(t, provider, "a", penalty.Benchmark, 1_000))
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]penalty.Draft{
		"another kind":     of(t, provider, "a", penalty.Misrepresentation, 1_000),
		"another model":    of(t, provider, "b", penalty.Benchmark, 1_000),
		"another provider": of(t, ids.ProviderID(newID(t)), "a", penalty.Benchmark, 1_000),
	} {
		if _, err := e.keepers[1].Open(t.Context(), d); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
	next := of(t, provider, "a", penalty.Benchmark, 1_000)
	if _, err := e.keepers[1].Open(t.Context(), next); !fault.Is(err, penalty.AlreadyOpen) {
		t.Errorf("while the first is open: got the error %v, want %s", err, penalty.AlreadyOpen)
	}
	if _, err := e.keepers[0].Resolve(t.Context(), first.ID, false, "common cause"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.keepers[1].Open(t.Context(), next); err != nil {
		t.Errorf("once the first is reversed: got the error %v, want none", err)
	}
}

// Penalties that stood at the same time are shares of one whole, also after one of them
// was executed.
func TestTheSharesOfPenaltiesThatStandAtOnceAreAtMostTheWhole(t *testing.T) {
	t.Parallel()
	e := setup(t)
	provider := ids.ProviderID(newID(t))
	open := func(model string, share int32) error {
		_, err := e.keepers[0].Open(t.Context(), of(t, provider, model, penalty.Benchmark, share))
		return err
	}
	for n := range 3 {
		if err := open(fmt.Sprint("m", n), 3_000); err != nil {
			t.Fatal(err)
		}
		e.pass(t, time.Hour)
	}
	e.pass(t, penalty.Window-3*time.Hour) // the first is due now, the others are not
	switch executed, _, err := e.keepers[0].ExecuteDue(t.Context()); {
	case err != nil:
		t.Fatal(err)
	case len(executed) != 1:
		t.Fatalf("got %d executed, want 1", len(executed))
	}
	if err := open("m3", 1_001); !fault.Is(err, penalty.SharesExceeded) {
		t.Errorf("a share beyond the whole: got the error %v, want %s", err, penalty.SharesExceeded)
	}
	if err := open("m3", 1_000); err != nil {
		t.Errorf("the rest: got the error %v, want none", err)
	}
	e.pass(t, 2*penalty.Window)
	if _, _, err := e.keepers[0].ExecuteDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := open("m4", 3_000); err != nil {
		t.Errorf("when none is open any more: got the error %v, want none", err)
	}
}

// The store is asked without the rule in Go.
func TestTheDatabaseRefusesPenaltiesThatDoNotFitBesideOthers(t *testing.T) {
	t.Parallel()
	e := setup(t)
	provider := ids.ProviderID(newID(t))
	open := func(model string) error {
		_, _, err := e.stores[0].Open(t.Context(), of(t, provider, model, penalty.Benchmark, 3_000),
			func([]penalty.Penalty) error { return nil })
		return err
	}
	for n := range 3 {
		if err := open(fmt.Sprint("m", n)); err != nil {
			t.Fatal(err)
		}
	}
	for model, want := range map[string]string{"m0": "penalty_one_open", "m3": "at most its whole collateral"} {
		if got := fmt.Sprint(open(model)); !strings.Contains(got, want) {
			t.Errorf("%s: got the error %s, want %s", model, got, want)
		}
	}
}

func TestOfPenaltiesThatAreOpenedAtOnceNoMoreThanFitAreOpened(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for round := range rounds {
		provider := ids.ProviderID(newID(t))
		var all []func() error
		for n := range 5 { // 3 of 3,000 fit, and one of each model
			d := of(t, provider, fmt.Sprint("m", n), penalty.Benchmark, 3_000)
			all = append(all, func() error { _, err := e.keepers[n%2].Open(t.Context(), d); return err })
		}
		opened := 0
		for _, err := range race(all...) {
			if err == nil {
				opened++
			} else if !fault.Is(err, penalty.SharesExceeded) {
				t.Errorf("round %d: got the error %v, want %s", round, err, penalty.SharesExceeded)
			}
		}
		if opened != 3 {
			t.Errorf("round %d: got %d opened, want 3", round, opened)
		}
	}
}

func TestPenaltiesAreDueInOneOrderAndEachPlaceLeadsOn(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var want []penalty.ID
	for n := range 7 {
		want = append(want, e.open(t).ID)
		if n%3 == 2 { // several are due at the same time
			e.pass(t, time.Minute)
		}
	}
	upheld := e.appealed(t)
	e.pass(t, penalty.Window)
	if _, err := e.keepers[0].Resolve(t.Context(), upheld.ID, true, "it holds"); err != nil {
		t.Fatal(err)
	}
	want = append(want, upheld.ID)
	var got []penalty.ID
	for at := (penalty.Place{}); ; {
		list, err := e.stores[0].Due(t.Context(), at, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, place := range list {
			got = append(got, place.ID)
		}
		at = list[len(list)-1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Whoever may make temporary tables could otherwise put one of them in the place of a table
// that a trigger reads.
func TestEveryFunctionHasASearchPathOfItsOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.Owner(t, pgtest.Pool(t, store.Schema, store.Role, store.Migrations))
	rows, err := pool.Query(t.Context(), `SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = $1 AND NOT coalesce(p.proconfig, '{}') @> '{"search_path=settlement, pg_temp"}'`, store.Schema)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 0 {
		t.Errorf("without search_path settlement, pg_temp: got %v, want none", got)
	}
}

// A temporary history does not stand for the real one.
func TestATemporaryTableDeceivesNoTrigger(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := e.open(t)
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	}()
	for _, sql := range []string{
		`CREATE TEMP TABLE penalty_change ON COMMIT DROP AS SELECT * FROM settlement.penalty_change`,
		`UPDATE pg_temp.penalty_change SET revision = 2, from_state = 'proposed', to_state = 'reversed'`,
		`UPDATE settlement.penalty SET state = 'reversed', revision = 2, resolution = 'x', resolved_at = opened_at`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const want = "changes with an entry"
	if got := fmt.Sprint(tx.Commit(t.Context())); !strings.Contains(got, want) {
		t.Errorf("a reversal without an entry: got the error %s, want %s", got, want)
	}
	if got := e.now(t, p.ID); got != p {
		t.Errorf("afterwards: got %+v, want %+v", got, p)
	}
}
