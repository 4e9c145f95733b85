package store_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// storageRequests are the requests of one generation of BenchmarkStorage.
const storageRequests = 20_000

// BenchmarkStorage prints how many bytes of the disk a settled request takes, by
// table and index: fresh, and for good, after its retention. Fresh is the growth of
// the tables while requests come, with a vacuum after each quarter of the requests,
// as autovacuum would do. After retention is the growth while as many requests come
// again, once the first were dropped and the dropped rows have made room.
func BenchmarkStorage(b *testing.B) {
	e, _ := durable(b)
	for b.Loop() {
		empty := e.sizes(b)
		e.serveMany(b, time.Now().AddDate(0, 0, -retention-1))
		fresh := e.sizes(b)
		e.pushBack(b, retention+1)
		e.sealDue(b)
		sealed := e.sizes(b) // lines that were pushed back are there twice
		for n := -1; n != 0; {
			n = e.dropCleared(b, 500)
		}
		for range 2 { // the second finds the pages that the first has emptied
			e.vacuum(b)
		}
		e.serveMany(b, time.Now())
		again := e.sizes(b)

		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(out, "bytes a settled request\tfresh\tafter retention\t")
		var sums [2]float64
		for _, name := range slices.Sorted(maps.Keys(again)) {
			grown := [2]float64{float64(fresh[name]-empty[name]) / storageRequests, float64(again[name]-sealed[name]) /
				storageRequests}
			if max(grown[0], grown[1]) < 0.5 {
				continue
			}
			fmt.Fprintf(out, "%s\t%.0f\t%.0f\t\n", name, grown[0], grown[1])
			sums[0] += grown[0]
			sums[1] += grown[1]
		}
		fmt.Fprintf(out, "all\t%.0f\t%.0f\t\n", sums[0], sums[1])
		if err := out.Flush(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(sums[0], "fresh-B/request")
		b.ReportMetric(sums[1], "kept-B/request")
	}
	b.ReportMetric(0, "ns/op")
}

// serveMany serves and settles requests with ids of that time, with what gateways
// say of them.
func (e *env) serveMany(b *testing.B, at time.Time) {
	b.Helper()
	const batch = 200
	keys := make([]consumer, 32)
	for i := range keys {
		keys[i] = e.consumer(b, 1_000_000*money.USD)
	}
	for n := 0; n < storageRequests; n += batch {
		claims := make([]hold.Reservation, batch)
		for i := range claims {
			claims[i] = e.reservation(b, keys[i%len(keys)], 2)
			claims[i].Request = requestAt(b, at.Add(time.Duration(n+i)*time.Millisecond))
		}
		e.admit(b, claims...)
		reports, deliveries := make([]hold.RequestReport, batch), make([]usage.Delivery, batch)
		for i, c := range claims {
			deliveries[i] = e.served(b, c, 2)
			provider := deliveries[i].Event.Provider
			reports[i] = hold.RequestReport{
				Request: c.Request, Outcome: "completed", CommittedAttempt: 1, RelayedTokens: 2, RelayedBytes: 20, HTTPStatus: 200,
				RouteMode: "auto", Stream: true, ReceivedAt: time.Now(), FirstContentMS: 40, TotalMS: 400,
				Metered: &money.Tokens{Completion: 2},
				Attempts: []hold.Attempt{{
					Attempt: 1, ProviderID: provider.String(), ProviderName: "gpu-works-berlin", Result: "completed",
					EngineStatus: 200, LatencyMS: 400, HubID: "provider-hub-0",
				}},
			}
		}
		if _, _, err := e.store.Conclude(b.Context(), reports); err != nil {
			b.Fatal(err)
		}
		e.settle(b, usage.Settled, deliveries...)
		if (n+batch)%(storageRequests/4) == 0 {
			e.vacuum(b)
		}
	}
}

func (e *env) vacuum(b *testing.B) {
	b.Helper()
	if _, err := e.owner.Exec(b.Context(), `VACUUM`); err != nil {
		b.Fatal(err)
	}
}

// ofPartition is the part of a relation's name that says which partition it is.
var ofPartition = regexp.MustCompile(`^usage_settlement_(\d{8}|default)`)

// sizes are the bytes of the tables and indexes of the ledger; partitions are
// summed.
func (e *env) sizes(b *testing.B) map[string]int64 {
	b.Helper()
	rows, err := e.owner.Query(b.Context(), `SELECT relname::text, pg_table_size(oid) FROM pg_class
		WHERE relnamespace = 'billing'::regnamespace AND relkind IN ('r', 'i')`)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	sizes := map[string]int64{}
	for rows.Next() {
		var name string
		var size int64
		if err := rows.Scan(&name, &size); err != nil {
			b.Fatal(err)
		}
		sizes[ofPartition.ReplaceAllString(name, "usage_settlement")] += size
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return sizes
}
