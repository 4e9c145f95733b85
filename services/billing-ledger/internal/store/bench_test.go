package store_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pg/pgserver"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/price"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// durable is a ledger on a server that flushes to disk, unlike the server of the
// tests, because without flushes nobody can see what group commit saves. flush
// names the server's setting, for the names of the benchmarks.
func durable(b *testing.B) (e *env, flush string) {
	b.Helper()
	// Not b.TempDir, into which the account that runs the server cannot look.
	dir, err := os.MkdirTemp("", "billing-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		b.Fatal(err)
	}
	cluster, err := pgserver.Start(b.Context(), pgserver.Config{Durable: true, Dir: dir + "/server"})
	if err != nil {
		b.Skipf("no durable server: %v", err)
	}
	b.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	})
	url := cluster.URL()
	if err := pg.Migrate(b.Context(), url, store.Schema, store.Role, store.Migrations); err != nil {
		b.Fatal(err)
	}
	pool := pgtest.Open(b, url, store.Schema, store.Role)
	e = on(b, pool, pgtest.Owner(b, pool), unlimited)
	return e, "fsync=" + scan[string](b, e, `SELECT current_setting('fsync')`)
}

func BenchmarkAdmissions(b *testing.B) {
	e, flush := durable(b)
	for _, accounts := range []int{1, 32} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/accounts=%d/callers=%d", flush, accounts, callers), func(b *testing.B) {
				admissions(b, e, accounts, callers)
			})
		}
	}
}

func admissions(b *testing.B, e *env, accounts, callers int) {
	b.Helper()
	a, stop := admitter(b, e, 1)
	defer stop()
	consumers := make([]consumer, accounts)
	for i := range consumers {
		consumers[i] = e.consumer(b, 1_000_000*money.USD)
	}
	orders := make([]hold.AdmitRequest, b.N)
	for i := range orders {
		orders[i] = hold.AdmitRequest{Request: request(b), Key: consumers[i%accounts].key, Model: "acme/large",
			MaxCompletionTokens: 1}
	}
	var next atomic.Int64
	b.ResetTimer()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				if _, err := a.Admit(b.Context(), orders[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
}

// admitter runs until stop is called.
func admitter(b *testing.B, e *env, writers int) (a *hold.Admitter, stop func()) {
	b.Helper()
	return admitterOn(b, e.store, e.price, writers)
}

// pricesOf has one model of the standard tier.
func pricesOf(version ids.PriceVersionID) *price.Book {
	prices := &price.Book{}
	prices.Replace(map[string]price.Model{
		"acme/large": {ID: "acme/large", Class: limit.LLM, Tier: plan.Standard, Version: version, Rates: centRates},
	})
	return prices
}

func BenchmarkSettles(b *testing.B) {
	e, flush := durable(b)
	for _, accounts := range []int{1, 32} {
		b.Run(fmt.Sprintf("%s/accounts=%d/batch=200", flush, accounts), func(b *testing.B) {
			consumers := make([]consumer, accounts)
			for i := range consumers {
				consumers[i] = e.consumer(b, 1_000_000*money.USD)
			}
			var deliveries []usage.Delivery
			for len(deliveries) < b.N {
				var claims []hold.Reservation
				for i := range 256 {
					claims = append(claims, e.reservation(b, consumers[i%accounts], 2))
				}
				e.admit(b, claims...)
				for _, c := range claims {
					deliveries = append(deliveries, e.served(b, c, 2))
				}
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += 200 {
				e.settle(b, usage.Settled, deliveries[i:min(i+200, b.N)]...)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "settles/s")
		})
	}
}
