package refund_test

import (
	"slices"
	"testing"
	"time"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
)

var (
	due   = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	early = due.Add(-time.Second)
)

func TestAPartOnAChainFollowsItsRefundAndItsPosition(t *testing.T) {
	t.Parallel()
	free := position.Position{Free: chain.NewAmount(5)}
	requested := position.Position{Free: chain.NewAmount(5), RefundAt: due}
	held := position.Position{Free: chain.NewAmount(4), Escrow: chain.NewAmount(1), RefundAt: due}
	for name, c := range map[string]struct {
		of   refund.State
		part refund.Part
		at   position.Position
		call chain.SendOutcome
		now  time.Time
		want refund.Decision
	}{
		"the contract is asked at once": {refund.Asked, refund.Part{State: refund.PartAsked}, free, chain.SendRefused, early,
			refund.Decision{Action: refund.Request}},
		"the contract says that it was asked": {refund.Asked, refund.Part{State: refund.PartAsked}, requested,
			chain.SendDone, early, refund.Decision{State: refund.PartRequested}},
		"it waits for its time": {refund.Asked, refund.Part{State: refund.PartRequested}, requested, chain.SendDone, due,
			refund.Decision{}},
		"it is not paid a second early": {refund.Paying, refund.Part{State: refund.PartRequested}, requested, chain.SendDone,
			early, refund.Decision{}},
		"it is paid when it is due": {refund.Paying, refund.Part{State: refund.PartRequested}, requested, chain.SendDone, due,
			refund.Decision{Action: refund.Execute}},
		"it is not paid beside escrow": {refund.Paying, refund.Part{State: refund.PartRequested}, held, chain.SendDone, due,
			refund.Decision{}},
		"it is not paid while the time of the chain is unknown": {refund.Paying, refund.Part{State: refund.PartRequested},
			requested, chain.SendDone, time.Time{}, refund.Decision{}},
		"a request that is gone is made again": {refund.Paying, refund.Part{State: refund.PartRequested}, free,
			chain.SendDone, due, refund.Decision{State: refund.PartAsked}},
		"an empty position is paid": {refund.Paying, refund.Part{State: refund.PartRequested}, position.Position{},
			chain.SendDone, due, refund.Decision{State: refund.PartDone}},
		"an empty position waits for its refund": {refund.Asked, refund.Part{State: refund.PartAsked}, position.Position{},
			chain.SendRefused, early, refund.Decision{}},
		"a cancelled one is cancelled in the contract": {refund.Cancelled, refund.Part{State: refund.PartRequested},
			requested, chain.SendDone, early, refund.Decision{Action: refund.Cancel}},
		"a cancelled one that nobody asked for is over": {refund.Cancelled, refund.Part{State: refund.PartAsked}, free,
			chain.SendRefused, early, refund.Decision{State: refund.PartCancelled}},
		"a cancelled one is over once the contract says so": {refund.Cancelled,
			refund.Part{State: refund.PartRequested, Action: refund.Cancel}, free, chain.SendDone, early,
			refund.Decision{State: refund.PartCancelled}},
	} {
		if got := c.part.OnChain(c.of, c.at, c.call, c.now); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Whatever a part was told, and whatever became of it, the contract is never asked to pay before its time, beside a
// penalty, or for a refund that is not being paid.
func TestNothingIsPaidOutOfTurn(t *testing.T) {
	t.Parallel()
	positions := []position.Position{
		{}, {Free: chain.NewAmount(5)}, {Free: chain.NewAmount(5), RefundAt: due}, {Escrow: chain.NewAmount(5)},
		{Escrow: chain.NewAmount(1), RefundAt: due},
	}
	actions := []refund.Action{refund.None, refund.Request, refund.Cancel, refund.Execute}
	outcomes := []chain.SendOutcome{chain.SendWaiting, chain.SendDone, chain.SendRefused}
	for _, of := range refund.States() {
		for _, at := range positions {
			for _, action := range actions {
				for _, call := range outcomes {
					for _, now := range []time.Time{{}, early, due, due.Add(365 * 24 * time.Hour)} {
						p := refund.Part{State: refund.PartRequested, Action: action, Attempt: 100}
						d := p.OnChain(of, at, call, now)
						begins := d.Action == refund.Execute && (action != refund.Execute || call == chain.SendRefused)
						may := of == refund.Paying && at.Escrow.IsZero() && !at.RefundAt.IsZero() && !now.Before(at.RefundAt)
						if begins && !may {
							t.Errorf("%s, position %+v, %q became %d, at %v: got %+v, want no payment", of, at, action, call, now, d)
						}
						if d.State != "" && !slices.Contains(p.State.Next(), d.State) {
							t.Errorf("%s, position %+v: got the state %s, which does not follow %s", of, at, d.State, p.State)
						}
					}
				}
			}
		}
	}
}

func TestStatesOfRefundsEndWhereNothingFollows(t *testing.T) {
	t.Parallel()
	for _, s := range refund.PartStates() {
		if got, want := s.Final(), len(s.Next()) == 0 || s == refund.PartDone; got != want {
			t.Errorf("part %s: got final %t, want %t: %v follow", s, got, want, s.Next())
		}
		for _, to := range s.Next() {
			if !slices.Contains(refund.PartStates(), to) {
				t.Errorf("part %s leads to %s, which is no state", s, to)
			}
		}
	}
	reached := map[refund.State]bool{refund.Asked: true}
	for _, s := range refund.States() {
		for _, to := range s.Next() {
			reached[to] = true
		}
	}
	for _, s := range refund.States() {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
	}
}

func TestAPaymentByCardGoesBackOnceTheBooksHaveItOnItsWay(t *testing.T) {
	t.Parallel()
	want := map[refund.PartState]refund.Action{refund.PartOpened: refund.PostAsked, refund.PartPosted: refund.PayBack,
		refund.PartByBank: refund.PayBack, refund.PartTakenBack: refund.PostUndo, refund.PartByCard: refund.PostPaid,
		refund.PartFromBank: refund.PostPaid}
	for _, s := range refund.PartStates() {
		if got := (refund.Part{State: s}).OnCard(); got != (refund.Decision{Action: want[s]}) {
			t.Errorf("%s: got %+v, want %q", s, got, want[s])
		}
	}
}
