package store_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/penalty"
)

// race runs functions at once and returns their errors.
func race(all ...func() error) []error {
	errs := make([]error, len(all))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(len(all))
	for i, f := range all {
		done.Go(func() {
			ready.Done()
			<-begin
			errs[i] = f()
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return errs
}

const rounds = 25

func TestOfTwoThatOpenOneIDTheSecondReadsTheFirst(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for range rounds {
		d := draft(t)
		other := d
		other.ShareBasisPoints = 3_000
		errs := race(
			func() error { _, err := e.keepers[0].Open(t.Context(), d); return err },
			func() error { _, err := e.keepers[1].Open(t.Context(), d); return err },
			func() error { _, err := e.keepers[1].Open(t.Context(), other); return err },
		)
		share := e.now(t, d.ID).ShareBasisPoints
		for i, opened := range []int32{1_000, 1_000, 3_000} {
			if (errs[i] == nil) != (opened == share) {
				t.Errorf("opened with %d, kept %d: got the error %v", opened, share, errs[i])
			}
			if errs[i] != nil && !fault.Is(errs[i], fault.IdempotencyKeyReused) {
				t.Errorf("got the error %v, want %s", errs[i], fault.IdempotencyKeyReused)
			}
		}
		if got := e.history(t, d.ID); len(got) != 1 {
			t.Errorf("history: got %q, want the opening alone", got)
		}
	}
	if n := len(e.announced); n != rounds {
		t.Errorf("announced: got %d, want %d", n, rounds)
	}
}

// The clock stands on either side of the end of the time, or moves over it in the middle
// of the race. Whoever is first under the lock decides.
func TestAnAppealAndTheExpiryAtTheEndOfTheTimeComeToOneEnd(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var appealed, executed int
	for round := range rounds {
		p := e.open(t)
		e.pass(t, penalty.Window-time.Microsecond)
		errs := race(
			func() error { _, err := e.keepers[0].Appeal(t.Context(), p.ID, p.ProviderID, "in time"); return err },
			func() error { e.pass(t, time.Microsecond); return nil },
			func() error { _, _, err := e.keepers[0].ExecuteDue(t.Context()); return err },
			func() error { _, _, err := e.keepers[1].ExecuteDue(t.Context()); return err },
		)
		if err := errors.Join(errs[1:]...); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.keepers[0].ExecuteDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := e.now(t, p.ID)
		switch {
		case errs[0] == nil && got.State == penalty.Appealed:
			appealed++
		case fault.Is(errs[0], fault.TransitionNotAllowed) && got.State == penalty.Executed:
			executed++
		default:
			t.Errorf("round %d: got %s and the error %v of the appeal, want one end", round, got.State, errs[0])
		}
		if got := e.history(t, p.ID); len(got) != 2 {
			t.Errorf("round %d: got the history %q, want two entries", round, got)
		}
	}
	t.Logf("%d appealed, %d executed", appealed, executed)
}

func TestAnAppealAndAReversalComeToOneEnd(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for round := range rounds {
		p := e.open(t)
		errs := race(
			func() error { _, err := e.keepers[0].Appeal(t.Context(), p.ID, p.ProviderID, "no"); return err },
			func() error { _, err := e.keepers[1].Resolve(t.Context(), p.ID, false, "void"); return err },
		)
		if errs[1] != nil {
			t.Errorf("round %d: the reversal: got the error %v, want none", round, errs[1])
		}
		got := e.now(t, p.ID)
		if got.State != penalty.Reversed {
			t.Errorf("round %d: got %s, want %s", round, got.State, penalty.Reversed)
		}
		if recorded := !got.AppealedAt.IsZero(); recorded != (errs[0] == nil) {
			t.Errorf("round %d: the appeal: got the error %v, recorded: %t", round, errs[0], recorded)
		}
	}
}

func TestOfTwoOperatorsAtOnceEachDecisionIsKeptOrRefused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	alice, bob := actor.WithOperator(t.Context(), "alice"), actor.WithOperator(t.Context(), "bob")
	for round := range rounds {
		p := e.appealed(t)
		errs := race(
			func() error { _, err := e.keepers[0].Resolve(alice, p.ID, true, "it holds"); return err },
			func() error { _, err := e.keepers[1].Resolve(bob, p.ID, false, "it is void"); return err },
			func() error { _, _, err := e.keepers[1].ExecuteDue(t.Context()); return err },
		)
		if errs[2] != nil {
			t.Fatal(errs[2])
		}
		kept := strings.Join(e.history(t, p.ID), "\n")
		if got := strings.Contains(kept, "operator:alice it holds"); got != (errs[0] == nil) {
			t.Errorf("round %d: alice got the error %v, and her entry stands: %t", round, errs[0], got)
		}
		if got := strings.Contains(kept, "operator:bob it is void"); got != (errs[1] == nil) {
			t.Errorf("round %d: bob got the error %v, and his entry stands: %t", round, errs[1], got)
		}
		state := e.now(t, p.ID).State
		if want := map[bool]penalty.State{true: penalty.Reversed, false: penalty.Executed}[errs[1] == nil]; state != want {
			t.Errorf("round %d: got %s, want %s, with %s", round, state, want, kept)
		}
	}
}

func TestTwoProcessesExecuteEachPenaltyOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for range rounds {
		e.open(t)
	}
	e.pass(t, penalty.Window)
	e.announced = nil
	errs := race(
		func() error { _, _, err := e.keepers[0].ExecuteDue(t.Context()); return err },
		func() error { _, _, err := e.keepers[1].ExecuteDue(t.Context()); return err },
	)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := len(e.announced); n != rounds {
		t.Errorf("announced: got %d, want %d", n, rounds)
	}
}
