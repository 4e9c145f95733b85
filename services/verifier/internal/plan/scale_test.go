package plan_test

import (
	"encoding/binary"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/plan"
)

// BenchmarkPlanOfTenThousandOffers plans an hour of 10,000 offers, as one replica does.
func BenchmarkPlanOfTenThousandOffers(b *testing.B) {
	offers := make([]plan.Offer, 10_000)
	for i := range offers {
		offers[i] = offer(1)
		var provider ids.ProviderID
		binary.BigEndian.PutUint64(provider[8:], uint64(i+1))
		offers[i].Offer.Provider = provider
	}
	planner := plan.New(key)
	week := cover.NewWeek()
	for h := range 168 {
		if err := week.Report(monday.Add(time.Duration(h-168)*time.Hour), plan.Prior()); err != nil {
			b.Fatal(err)
		}
	}
	probes := 0
	for b.Loop() {
		f := plan.Fleet{Week: week, Prior: plan.Prior(), BudgetADay: 1e6 * money.USD}
		for _, h := range planner.Plan(&f, monday, offers) {
			probes += len(h.Probes)
		}
	}
	b.ReportMetric(float64(probes)/float64(b.N), "probes/op")
}
