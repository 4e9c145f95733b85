package slash_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/slash"
)

// oneDue is a store with one part that is due. It records what a pass makes of it.
type oneDue struct {
	slash.Store
	work  slash.Work
	moved []slash.State
	begun []slash.Action
	waits int
}

func (s *oneDue) AppealedOnChain(context.Context, int) ([]slash.Part, error) { return nil, nil }

func (s *oneDue) Due(context.Context, time.Duration, int) ([]slash.Work, error) {
	return []slash.Work{s.work}, nil
}

func (s *oneDue) Move(_ context.Context, _ slash.Part, to slash.State, _ ids.EntryID) error {
	s.moved = append(s.moved, to)
	return nil
}

func (s *oneDue) Begin(_ context.Context, _ slash.Part, a slash.Action, _ int) (bool, error) {
	s.begun = append(s.begun, a)
	return true, nil
}

func (s *oneDue) Wait(context.Context, slash.Part, time.Duration) error {
	s.waits++
	return nil
}

// outcome is a sender of whose calls this became.
type outcome chain.SendOutcome

func (o outcome) Send(context.Context, chain.Sending) (chain.SendOutcome, error) {
	return chain.SendOutcome(o), nil
}

func pass(t *testing.T, s *oneDue, o chain.SendOutcome) {
	t.Helper()
	runner := slash.Runner{Store: s, Calls: outcome(o)}
	if _, err := runner.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func proposed(of penalty.State, attempt int) slash.Work {
	return slash.Work{Of: of, Part: slash.Part{Chain: chain.Base, Amount: chain.NewAmount(5), State: slash.Opened,
		Action: slash.Propose, Attempt: attempt}}
}

func TestARefusedProposalOfAReversedPenaltyIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	s := &oneDue{work: proposed(penalty.Reversed, 1)}
	pass(t, s, chain.SendRefused)
	if len(s.begun) != 0 {
		t.Errorf("began %v, want nothing: the collateral is not to go into escrow", s.begun)
	}
	if want := []slash.State{slash.Missed}; !slices.Equal(s.moved, want) {
		t.Errorf("moved to %v, want %v", s.moved, want)
	}
}

func TestAProposalIsTriedThreeTimesOfAPositionThatHasLess(t *testing.T) {
	t.Parallel()
	for attempt := 1; attempt < slash.MaxProposals; attempt++ {
		refusedAgain(t, true, attempt)
	}
	s := &oneDue{work: proposed(penalty.Proposed, slash.MaxProposals)}
	s.work.Short = true
	pass(t, s, chain.SendRefused)
	if want := []slash.State{slash.Missed}; !slices.Equal(s.moved, want) {
		t.Errorf("the last attempt was refused: moved to %v, want %v", s.moved, want)
	}
}

// Hostile: a contract refuses the slasher for a while, and the provider must not get away with its collateral.
func TestAProposalIsTriedForEverOfAPositionThatHasEnough(t *testing.T) {
	t.Parallel()
	for _, attempt := range []int{1, slash.MaxProposals, slash.MaxProposals + 1, 1000} {
		refusedAgain(t, false, attempt)
	}
}

// refusedAgain holds that an attempt that was refused is followed by another one, later.
func refusedAgain(t *testing.T, short bool, attempt int) {
	t.Helper()
	s := &oneDue{work: proposed(penalty.Proposed, attempt)}
	s.work.Short = short
	pass(t, s, chain.SendRefused)
	if len(s.moved) != 0 {
		t.Errorf("attempt %d was refused: moved to %v, want it to stay", attempt, s.moved)
	}
	if len(s.begun) != 1 {
		t.Errorf("attempt %d was refused: began %v, want one call", attempt, s.begun)
	}
	if s.waits != 1 {
		t.Errorf("attempt %d was refused: waits %d times, want once", attempt, s.waits)
	}
}

func TestAProposalWhoseOutcomeIsOpenIsWaitedForAfterAReversal(t *testing.T) {
	t.Parallel()
	s := &oneDue{work: proposed(penalty.Reversed, 1)}
	pass(t, s, chain.SendWaiting)
	if len(s.moved)+len(s.begun) != 0 {
		t.Errorf("moved to %v and began %v, want nothing: the event moves the part", s.moved, s.begun)
	}
}
