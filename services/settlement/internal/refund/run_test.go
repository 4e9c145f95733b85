package refund_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
)

// oneDue is a store with one part that is due. It records what a pass makes of it.
type oneDue struct {
	refund.Store
	work  refund.Work
	moved []refund.PartState
	begun []refund.Action
	waits int
}

func (s *oneDue) DueRefunds(context.Context, time.Duration, int) ([]refund.Refund, error) {
	return nil, nil
}

func (s *oneDue) DueParts(context.Context, time.Duration, int) ([]refund.Work, error) {
	return []refund.Work{s.work}, nil
}

func (s *oneDue) Move(_ context.Context, _ refund.Part, to refund.PartState, _ ids.EntryID) error {
	s.moved = append(s.moved, to)
	return nil
}

func (s *oneDue) Begin(_ context.Context, _ refund.Part, a refund.Action, _ int) (bool, error) {
	s.begun = append(s.begun, a)
	return true, nil
}

func (s *oneDue) Wait(context.Context, refund.Part, time.Duration) error {
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
	runner := refund.Runner{Store: s, Calls: outcome(o)}
	if _, err := runner.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func asked(of refund.State, action refund.Action) refund.Work {
	return refund.Work{Of: of, At: position.Position{Free: chain.NewAmount(5)},
		Part: refund.Part{Chain: chain.Base, State: refund.PartAsked, Action: action, Attempt: 1}}
}

// The receipt of a call may be final before its event was read. A part that ended in between would leave a request in
// the contract, by which anybody could have the position paid out later.
func TestACancelledRefundWaitsForTheEventOfItsRequest(t *testing.T) {
	t.Parallel()
	s := &oneDue{work: asked(refund.Cancelled, refund.Request)}
	pass(t, s, chain.SendDone)
	if len(s.moved) != 0 {
		t.Errorf("the request is final and its event was not read: moved to %v, want nothing", s.moved)
	}
	if len(s.begun) != 0 {
		t.Errorf("the request is final and its event was not read: began %v, want nothing", s.begun)
	}
	s.work.At.RefundAt = time.Unix(1, 0)
	pass(t, s, chain.SendDone)
	if want := []refund.Action{refund.Cancel}; !slices.Equal(s.begun, want) {
		t.Errorf("the request's event was read: began %v, want %v", s.begun, want)
	}
}

func TestACancelledRefundEndsOnceItsRequestWasRefused(t *testing.T) {
	t.Parallel()
	s := &oneDue{work: asked(refund.Cancelled, refund.Request)}
	pass(t, s, chain.SendRefused)
	if want := []refund.PartState{refund.PartCancelled}; !slices.Equal(s.moved, want) {
		t.Errorf("the contract refused the request: moved to %v, want %v", s.moved, want)
	}
}

func TestACancelledRefundWaitsForACallOnItsWay(t *testing.T) {
	t.Parallel()
	s := &oneDue{work: asked(refund.Cancelled, refund.Request)}
	pass(t, s, chain.SendWaiting)
	if len(s.moved) != 0 {
		t.Errorf("the request has no end: moved to %v, want nothing", s.moved)
	}
}

func TestARefusedCallOfARefundWaitsBeforeItsNextAttempt(t *testing.T) {
	t.Parallel()
	s := &oneDue{work: asked(refund.Asked, refund.Request)}
	pass(t, s, chain.SendRefused)
	if want := []refund.Action{refund.Request}; !slices.Equal(s.begun, want) {
		t.Errorf("the contract refused the request: began %v, want the same again, %v", s.begun, want)
	}
	if s.waits != 1 {
		t.Errorf("the further attempt waits %d times, want once", s.waits)
	}
}
