package store_test

import (
	"testing"
	"time"

	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/usage"
)

// BenchmarkSettleWithMarks compares what it costs to settle a request of an account with a hundred
// marks with what it costs for an account without marks. The two accounts take turns request by
// request. What is compared, and how, is as in BenchmarkAdmitAgainst.
func BenchmarkSettleWithMarks(b *testing.B) {
	const marks, requests = 100, 200
	r := newRival(b, 2)
	if _, err := r.store.LedgerSecret(b.Context(), [32]byte{1}); err != nil {
		b.Fatal(err)
	}
	marked, bare := r.consumers[0], r.consumers[1]
	for n := range marks {
		r.mark(b, marked, kin.DepositSource, n+1)
	}
	compare(b, "settling without marks", func() float64 {
		return byTurns(requests, func() time.Duration { return r.settling(b, marked) },
			func() time.Duration { return r.settling(b, bare) })
	})
}

// settling settles one request of an account, and returns the processor time that it took.
func (r rival) settling(b *testing.B, c consumer) time.Duration {
	b.Helper()
	reservation := r.reservation(b, c, 1)
	r.admitOne(b, reservation, hold.Admitted)
	delivery := r.served(b, reservation, 1)
	began := r.spent(b)
	r.settle(b, usage.Settled, delivery)
	return r.spent(b) - began
}
