package store_test

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// reader is settlement's rule in a few lines: the first event that is heard of
// stands, unless the ledger says that it settled by the other evidence source.
type reader struct{ first, ruling map[ids.RequestID]usage.Event }

func (r *reader) hear(e usage.Event) {
	first, known := r.first[e.Request]
	if !known {
		r.first[e.Request] = e
		first = e
	}
	if _, ruled := r.ruling[e.Request]; e.Settled && !ruled && e.EvidenceSource != first.EvidenceSource {
		r.ruling[e.Request] = e
	}
}

func (r *reader) payout(t *testing.T, id ids.RequestID) (money.NanoUSD, ids.ProviderID) {
	t.Helper()
	e, ok := r.ruling[id]
	if !ok {
		e, ok = r.first[id]
	}
	if !ok {
		t.Fatal("the other reader never heard of a settled request")
	}
	payout, err := e.Rates.Payout(e.Billable)
	if err != nil {
		t.Fatal(err)
	}
	return payout, e.Provider
}

// TestBothReadersEndEqualWhateverAWipedStoreShowedThem gives each reader the
// two evidence sources in an order of its own, to the other reader perhaps none of
// them, and then what reviews publish.
func TestBothReadersEndEqualWhateverAWipedStoreShowedThem(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	e := setup(t, unlimited)
	c := e.consumer(t, 1000*cent)
	other := &reader{first: map[ids.RequestID]usage.Event{}, ruling: map[ids.RequestID]usage.Event{}}
	const n = 16
	hubs := map[ids.RequestID]usage.Delivery{}
	for range n {
		reservation := e.reservation(t, c, 10)
		e.admitOne(t, reservation, "admitted")
		e.renew(t, running(reservation.Request, 1+rnd.Int64N(9)))
		hubs[reservation.Request] = e.served(t, reservation, 1+rnd.Int64N(9))
	}
	e.overdue(t)
	for _, p := range e.review(t) {
		both := []usage.Delivery{delivery(p), hubs[p.Event.Request]}
		swap := func() { both[0], both[1] = both[1], both[0] }
		if rnd.IntN(2) == 0 {
			swap()
		}
		e.settle(t, usage.Settled, both[0])
		e.settle(t, usage.Duplicate, both[1])
		if rnd.IntN(2) == 0 {
			swap()
		}
		for _, d := range both[:rnd.IntN(3)] {
			other.hear(d.Event)
		}
	}
	for range orphan.MaxPublications + 1 {
		e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
		for _, p := range e.review(t) {
			if rnd.IntN(3) > 0 { // some are wiped away too
				other.hear(p.Event)
			}
		}
	}
	for request := range hubs {
		payout, provider := other.payout(t, request)
		got := money.NanoUSD(scan[int64](t, e, `SELECT payout FROM usage_settlement WHERE request_id = $1`,
			[16]byte(request)))
		to := scan[[16]byte](t, e, `SELECT provider_id FROM usage_settlement WHERE request_id = $1`, [16]byte(request))
		if got != payout {
			t.Errorf("the ledger accrues: got %v, want %v", got, payout)
		} else if ids.ProviderID(to) != provider {
			t.Errorf("to: got %v, want %v", ids.ProviderID(to), provider)
		}
	}
	e.sound(t)
}
