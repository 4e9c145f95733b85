package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/store"
)

// env is a database whose clock a test sets, and two replicas of the service on it.
type env struct {
	pool, owner *pgxpool.Pool
	keepers     [2]*penalty.Keeper
	stores      [2]store.Penalties

	mu        sync.Mutex
	announced []penalty.Penalty
}

func setup(t *testing.T) *env {
	t.Helper()
	e := &env{pool: pgtest.Pool(t, store.Schema, store.Role, store.Migrations)}
	e.owner = pgtest.Owner(t, e.pool)
	for _, sql := range []string{
		`CREATE SCHEMA clock`,
		`CREATE TABLE clock.clock (at timestamptz)`,
		`INSERT INTO clock.clock VALUES ('2026-11-21 12:00:00+00')`,
		`CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM clock.clock'`,
		`GRANT USAGE ON SCHEMA clock TO ` + store.Role,
		`GRANT SELECT ON clock.clock TO ` + store.Role,
		// The triggers have a search path of their own.
		`ALTER FUNCTION penalty_begins() SET search_path = clock, pg_catalog, settlement, pg_temp`,
		`ALTER FUNCTION penalty_moves() SET search_path = clock, pg_catalog, settlement, pg_temp`,
	} {
		if _, err := e.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := e.owner.Exec(context.Background(), `DROP SCHEMA clock CASCADE`); err != nil {
			t.Error(err)
		}
	})
	for i := range e.keepers {
		cfg := e.pool.Config()
		cfg.MaxConns = 6
		cfg.ConnConfig.RuntimeParams["search_path"] = "clock, pg_catalog, " + store.Schema
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		e.stores[i] = store.Penalties{Store: store.New(pool)}
		e.keepers[i] = penalty.NewKeeper(e.stores[i], func(_ context.Context, p penalty.Penalty) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.announced = append(e.announced, p)
		})
	}
	return e
}

// pass moves the database's clock on.
func (e *env) pass(t *testing.T, by time.Duration) {
	t.Helper()
	if _, err := e.owner.Exec(t.Context(), `UPDATE clock.clock SET at = at + $1::interval`, by); err != nil {
		t.Fatal(err)
	}
}

func newID(t *testing.T) penalty.ID {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return penalty.ID(id)
}

func draft(t *testing.T) penalty.Draft {
	t.Helper()
	return penalty.Draft{ID: newID(t), ProviderID: ids.ProviderID(newID(t)), ModelID: "acme/tiny-1b",
		Kind: penalty.Misrepresentation, ShareBasisPoints: 1_000, Removes: true, Summary: "another quantization",
		EvidenceHash: [32]byte{1, 2, 3}, Family: "greedy"}
}

// A verifier of before the field opens the same penalty again, and so does a newer one a penalty of before it.
func TestAFamilyIsKeptAndOneThatIsNotSaidIsNoOther(t *testing.T) {
	t.Parallel()
	e := setup(t)
	named := draft(t)
	nameless := draft(t)
	nameless.Family = ""
	for _, d := range []penalty.Draft{named, nameless} {
		first, other, without := d, d, d
		first.Family, other.Family, without.Family = "greedy", "recall", ""
		if _, err := e.keepers[0].Open(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for _, again := range []penalty.Draft{first, without} {
			p, err := e.keepers[0].Open(t.Context(), again)
			if err != nil {
				t.Errorf("opened with %q, again with %q: got the error %v, want none", d.Family, again.Family, err)
			}
			if p.Family != d.Family {
				t.Errorf("opened with %q, again with %q: got %q, want the first", d.Family, again.Family, p.Family)
			}
		}
		_, err := e.keepers[0].Open(t.Context(), other)
		if is, want := fault.Is(err, fault.IdempotencyKeyReused), d.Family != ""; is != want {
			t.Errorf("opened with %q, again with another: got the error %v, want %s: %t", d.Family, err,
				fault.IdempotencyKeyReused, want)
		}
	}
	_, err := e.owner.Exec(t.Context(), `UPDATE penalty SET family = 'recall' WHERE penalty_id = $1`, named.ID)
	if !refused(err, "stays") {
		t.Errorf("another family: got the error %v, want a refusal", err)
	}
}

func (e *env) open(t *testing.T) penalty.Penalty {
	t.Helper()
	p, err := e.keepers[0].Open(t.Context(), draft(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// appealed opens a penalty and appeals.
func (e *env) appealed(t *testing.T) penalty.Penalty {
	t.Helper()
	p := e.open(t)
	p, err := e.keepers[0].Appeal(t.Context(), p.ID, p.ProviderID, "It was the engine.")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// now reads a penalty.
func (e *env) now(t *testing.T, id penalty.ID) penalty.Penalty {
	t.Helper()
	p, _, err := e.stores[0].Change(t.Context(), id,
		func(*penalty.Penalty, time.Time) (penalty.Entry, error) { return penalty.Entry{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// history lists what a penalty's history says, oldest first.
func (e *env) history(t *testing.T, id penalty.ID) []string {
	t.Helper()
	rows, err := e.owner.Query(t.Context(), `SELECT revision, from_state, to_state, cause, actor, reason
		FROM penalty_change WHERE penalty_id = $1 ORDER BY revision`, id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var revision int
		var from, to, cause, by, reason string
		if err := rows.Scan(&revision, &from, &to, &cause, &by, &reason); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d %s>%s %s %s %s", revision, from, to, cause, by, reason))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAPenaltyIsRecordedAsItWasOpenedAndTheDatabaseSaysWhen(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := draft(t)
	p, err := e.keepers[0].Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if p.Draft != d {
		t.Errorf("got %+v, want %+v", p.Draft, d)
	}
	if !p.OpenedAt.Equal(at) {
		t.Errorf("opened: got %s, want %s", p.OpenedAt, at)
	}
	if want := at.Add(penalty.Window); !p.AppealUntil.Equal(want) {
		t.Errorf("open to appeal until: got %s, want %s", p.AppealUntil, want)
	}
	if got := e.now(t, d.ID); got != p {
		t.Errorf("read again: got %+v, want %+v", got, p)
	}
}

func TestTheSameIDWithOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := draft(t)
	first, err := e.keepers[0].Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	e.pass(t, time.Hour)
	switch again, err := e.keepers[1].Open(t.Context(), d); {
	case err != nil:
		t.Errorf("the same again: got the error %v, want none", err)
	case again != first:
		t.Errorf("the same again: got %+v, want %+v", again, first)
	}
	for name, change := range map[string]func(*penalty.Draft){
		"provider": func(d *penalty.Draft) { d.ProviderID[15]++ },
		"model":    func(d *penalty.Draft) { d.ModelID = "acme/other" },
		"kind":     func(d *penalty.Draft) { d.Kind = penalty.Benchmark },
		"share":    func(d *penalty.Draft) { d.ShareBasisPoints++ },
		"removes":  func(d *penalty.Draft) { d.Removes = false },
		"summary":  func(d *penalty.Draft) { d.Summary = "x" },
		"evidence": func(d *penalty.Draft) { d.EvidenceHash[31]++ },
	} {
		other := d
		change(&other)
		if _, err := e.keepers[1].Open(t.Context(), other); !fault.Is(err, fault.IdempotencyKeyReused) {
			t.Errorf("another %s: got the error %v, want %s", name, err, fault.IdempotencyKeyReused)
		}
	}
	if n := len(e.announced); n != 1 {
		t.Errorf("announced: got %d, want 1", n)
	}
}

func TestAPenaltyThatNobodyAppealedIsExecutedAtTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := e.open(t)
	e.pass(t, penalty.Window-time.Microsecond)
	switch executed, _, err := e.keepers[0].ExecuteDue(t.Context()); {
	case err != nil:
		t.Errorf("a microsecond early: got the error %v, want none", err)
	case len(executed) != 0:
		t.Errorf("a microsecond early: got %d, want none", len(executed))
	}
	e.pass(t, time.Microsecond)
	switch executed, _, err := e.keepers[0].ExecuteDue(t.Context()); {
	case err != nil:
		t.Errorf("in time: got the error %v, want none", err)
	case len(executed) != 1:
		t.Errorf("in time: got %d, want 1", len(executed))
	}
	switch got := e.now(t, p.ID); {
	case got.State != penalty.Executed:
		t.Errorf("got %s at %s, want %s at %s", got.State, got.ExecutedAt, penalty.Executed, p.AppealUntil)
	case !got.ExecutedAt.Equal(p.AppealUntil):
		t.Errorf("got %s at %s, want %s at %s", got.State, got.ExecutedAt, penalty.Executed, p.AppealUntil)
	}
	if _, err := e.keepers[0].Appeal(t.Context(), p.ID, p.ProviderID, "no"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("an appeal: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	want := []string{"1 >proposed open verifier ", "2 proposed>executed expire platform nobody appealed within 48 hours"}
	if got := e.history(t, p.ID); !slices.Equal(got, want) {
		t.Errorf("history: got %q, want %q", got, want)
	}
}

func TestAnAppealStopsTheClockUntilAnOperatorDecides(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := e.appealed(t)
	e.pass(t, 10*penalty.Window)
	switch executed, _, err := e.keepers[0].ExecuteDue(t.Context()); {
	case err != nil:
		t.Errorf("appealed: got the error %v, want none", err)
	case len(executed) != 0:
		t.Errorf("appealed: got %d executed, want none", len(executed))
	}
	alice := actor.WithOperator(t.Context(), "alice")
	if _, err := e.keepers[1].Resolve(alice, p.ID, true, "replayed on a third host"); err != nil {
		t.Fatal(err)
	}
	switch executed, _, err := e.keepers[0].ExecuteDue(t.Context()); {
	case err != nil:
		t.Errorf("upheld: got the error %v, want none", err)
	case len(executed) != 1:
		t.Errorf("upheld: got %d executed, want 1", len(executed))
	}
	want := []string{"1 >proposed open verifier ", "2 proposed>appealed appeal provider ",
		"3 appealed>upheld uphold operator:alice replayed on a third host",
		"4 upheld>executed execute platform the appeal was refused"}
	if got := e.history(t, p.ID); !slices.Equal(got, want) {
		t.Errorf("history: got %q, want %q", got, want)
	}
	if _, err := e.keepers[1].Resolve(alice, p.ID, false, "no"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("reversed when executed: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	switch got, err := e.keepers[1].Resolve(alice, p.ID, true, "again"); {
	case err != nil:
		t.Errorf("upheld again: got the error %v, want none", err)
	case got.Resolution != "replayed on a third host":
		t.Errorf("upheld again: got %q, want the first reason", got.Resolution)
	}
}

func TestAnOperatorReversesAPenaltyThatNobodyAppealed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := e.open(t)
	if _, err := e.keepers[0].Resolve(t.Context(), p.ID, true, "why"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("upheld: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	got, err := e.keepers[0].Resolve(t.Context(), p.ID, false, "common cause")
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.State != penalty.Reversed:
		t.Errorf("got %s, want %s", got.State, penalty.Reversed)
	}
	e.pass(t, 2*penalty.Window)
	switch executed, _, err := e.keepers[0].ExecuteDue(t.Context()); {
	case err != nil:
		t.Errorf("later: got the error %v, want none", err)
	case len(executed) != 0:
		t.Errorf("later: got %d executed, want none", len(executed))
	}
}

func TestAProviderSeesAndAppealsItsOwnPenaltiesOnly(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p, other := e.open(t), e.open(t)
	_, foreign := e.keepers[0].Appeal(t.Context(), p.ID, other.ProviderID, "no")
	_, unknown := e.keepers[0].Appeal(t.Context(), newID(t), other.ProviderID, "no")
	switch {
	case !fault.Is(foreign, penalty.NotFound):
		t.Errorf("a foreign penalty: got the error %v, want that of an unknown one: %v", foreign, unknown)
	case foreign.Error() != unknown.Error():
		t.Errorf("a foreign penalty: got the error %v, want that of an unknown one: %v", foreign, unknown)
	}
	page, err := e.keepers[0].OfProvider(t.Context(), p.ProviderID, 0, 0)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case page.Total != 1:
		t.Errorf("got %+v, want %+v alone", page, p)
	case len(page.List) != 1:
		t.Errorf("got %+v, want %+v alone", page, p)
	case page.List[0] != p:
		t.Errorf("got %+v, want %+v alone", page, p)
	}
}

func TestPenaltiesAreListedByStateNewestFirst(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var want []penalty.ID
	for range 5 {
		want = append(want, e.open(t).ID)
		e.pass(t, time.Minute)
	}
	appealed := e.appealed(t)
	slices.Reverse(want)
	var got []penalty.ID
	for number := 1; number <= 3; number++ {
		page, err := e.keepers[0].InState(t.Context(), penalty.Proposed, number, 2)
		switch {
		case err != nil:
			t.Fatalf("page %d: got the error %v, want none", number, err)
		case page.Total != 5:
			t.Fatalf("page %d: got %d in all, want 5", number, page.Total)
		}
		for _, p := range page.List {
			got = append(got, p.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("proposed: got %v, want %v", got, want)
	}
	page, err := e.keepers[0].InState(t.Context(), "", 1, 1)
	switch {
	case err != nil:
		t.Errorf("all: got the error %v, want none", err)
	case page.Total != 6:
		t.Errorf("all: got %d, first %v,, want 6, first %s", page.Total, page.List, appealed.ID)
	case page.List[0].ID != appealed.ID:
		t.Errorf("all: got %d, first %v,, want 6, first %s", page.Total, page.List, appealed.ID)
	}
	if _, err := e.keepers[0].InState(t.Context(), "lost", 1, 1); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a state that is none: got the error %v, want %s", err, fault.InvalidValue)
	}
}

func TestABatchOfExecutionsIsBoundedAndNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for range penalty.MaxBatch + 1 {
		e.open(t)
	}
	e.pass(t, penalty.Window)
	switch b, err := e.keepers[0].Backlog(t.Context()); {
	case err != nil:
		t.Errorf("before: got the error %v, want none", err)
	case b.Overdue != penalty.MaxBatch+1:
		t.Errorf("before: got %+v, want %d overdue", b, penalty.MaxBatch+1)
	case b.Open[penalty.Proposed] != penalty.MaxBatch+1:
		t.Errorf("before: got %+v, want %d overdue", b, penalty.MaxBatch+1)
	}
	executed, more, err := e.keepers[0].ExecuteDue(t.Context())
	switch {
	case err != nil:
		t.Errorf("first: got the error %v, want none", err)
	case len(executed) != penalty.MaxBatch:
		t.Errorf("first: got %d, more: %t,, want %d and more", len(executed), more, penalty.MaxBatch)
	case !more:
		t.Errorf("first: got %d, more: %t,, want %d and more", len(executed), more, penalty.MaxBatch)
	}
	executed, more, err = e.keepers[0].ExecuteDue(t.Context())
	switch {
	case err != nil:
		t.Errorf("second: got the error %v, want none", err)
	case len(executed) != 1:
		t.Errorf("second: got %d, more: %t,, want 1 and no more", len(executed), more)
	case more:
		t.Errorf("second: got %d, more: %t,, want 1 and no more", len(executed), more)
	}
	switch b, err := e.keepers[0].Backlog(t.Context()); {
	case err != nil:
		t.Errorf("after: got the error %v, want none", err)
	case b.Overdue != 0:
		t.Errorf("after: got %+v, want nothing", b)
	case len(b.Open) != 0:
		t.Errorf("after: got %+v, want nothing", b)
	}
}

// A process that dies in a transaction has changed nothing, and the next one finds the
// penalty where it was. A killed process is a connection that ends.
func TestADeathBeforeTheCommitLeavesThePenaltyDue(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(*testing.T, *env, context.CancelFunc){
		"the call ends": func(_ *testing.T, _ *env, cancel context.CancelFunc) { cancel() },
		"the connection ends": func(t *testing.T, e *env, _ context.CancelFunc) {
			if _, err := e.owner.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND state = 'idle in transaction'`); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			p := e.open(t)
			e.pass(t, penalty.Window)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, _, err := e.stores[0].Change(ctx, p.ID, func(p *penalty.Penalty, now time.Time) (penalty.Entry, error) {
				die(t, e, cancel)
				p.State, p.Revision, p.ExecutedAt = penalty.Executed, 2, now
				return penalty.Entry{Revision: 2, From: penalty.Proposed, To: penalty.Executed, Cause: "expire",
					Actor: penalty.ByPlatform, At: now}, nil
			})
			if err == nil {
				t.Error("got no error, want that of the death")
			}
			if got := e.now(t, p.ID); got != p {
				t.Errorf("after the death: got %+v, want %+v", got, p)
			}
			switch executed, _, err := e.keepers[1].ExecuteDue(t.Context()); {
			case err != nil:
				t.Errorf("the next process: got the error %v, want none", err)
			case len(executed) != 1:
				t.Errorf("the next process: got %d executed, want 1", len(executed))
			}
		})
	}
}
