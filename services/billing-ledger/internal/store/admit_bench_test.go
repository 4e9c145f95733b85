package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
)

// Rounds of a comparison, and batches of one round of BenchmarkAdmitAgainst. A batch of 16 is what a
// busy moment collects.
const (
	againstRounds  = 15
	againstBatches = 120
	againstBatch   = 16
	warmUpBatches  = 10
)

// BenchmarkAdmitAgainst compares what admission costs with what another version of
// admit_requests.sql costs, of which ADMIT_BASE is the file. Both admit for the same accounts in the same
// tables, each on a connection of its own, and take turns batch by batch. Each round has new connections,
// because the memory of a server's process makes it faster or slower for as long as it lives. What is compared is the
// processor time of the connection's process in the server, because other programs on the machine
// stretch the time on the clock. A round's ratio is that of its medians; the result is the median of the
// ratios with an interval that has it in 95 of 100 runs. The control is a version against itself.
func BenchmarkAdmitAgainst(b *testing.B) {
	base, err := os.ReadFile(os.Getenv("ADMIT_BASE"))
	if err != nil {
		b.Skip("ADMIT_BASE names no version of admit_requests.sql")
	}
	head, err := os.ReadFile(filepath.Join("functions", "admit_requests.sql"))
	if err != nil {
		b.Fatal(err)
	}
	for _, accounts := range []int{againstBatch, 1} {
		for _, other := range []struct{ name, text string }{{"what it was", string(base)}, {"itself", string(head)}} {
			b.Run(fmt.Sprintf("accounts=%d/batch=%d/of=%s", accounts, againstBatch, other.name), func(b *testing.B) {
				first := newRival(b, accounts)
				first.addVersion(b, other.text)
				compare(b, other.name, func() float64 {
					now, old := first.reconnect(b, store.Schema), first.reconnect(b, "version, "+store.Schema)
					defer now.pool.Close()
					defer old.pool.Close()
					return byTurns(againstBatches, func() time.Duration { return now.batch(b) },
						func() time.Duration { return old.batch(b) })
				})
			})
		}
	}
}

// admitting is a way to admit a batch.
type admitting func(context.Context, []hold.Reservation) ([]hold.Decision, error)

// BenchmarkPlainAgainstWhole compares what a batch of plain requests costs the database with what it
// costs by admit_requests, as BenchmarkAdmitAgainst does. The times are of the server's process, for
// one request.
func BenchmarkPlainAgainstWhole(b *testing.B) {
	for _, size := range []int{1, 5, 16, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			first := newRival(b, min(size, againstBatch))
			var plain, whole []time.Duration
			compare(b, "admit_requests", func() float64 {
				one, other := first.reconnect(b, store.Schema), first.reconnect(b, store.Schema)
				defer one.pool.Close()
				defer other.pool.Close()
				for range warmUpBatches {
					one.batchBy(b, one.store.Admit, size)
				}
				return byTurns(againstBatches, func() time.Duration {
					plain = append(plain, one.batchBy(b, one.store.Admit, size))
					return plain[len(plain)-1]
				}, func() time.Duration {
					whole = append(whole, other.batchBy(b, other.store.AdmitWhole, size))
					return whole[len(whole)-1]
				})
			})
			for of, times := range map[string][]time.Duration{"plain": plain, "whole": whole} {
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/float64(size), of+"-server-µs/request")
			}
		})
	}
}

// compare runs rounds, each of which returns a ratio, and reports the median of the ratios with an
// interval that has it in 95 of 100 runs.
func compare(b *testing.B, with string, round func() float64) {
	b.Helper()
	round() // the first round is not counted
	ratios := make([]float64, againstRounds)
	for i := range ratios {
		ratios[i] = round()
	}
	slices.Sort(ratios)
	low, high := ratios[3], ratios[len(ratios)-4]
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(low, "ratio-low")
	b.ReportMetric(high, "ratio-high")
	b.Logf("%.3f (%.3f-%.3f) of %s, over %d rounds", ratios[len(ratios)/2], low, high, with, len(ratios))
}

// byTurns measures two so many times by turns, each as often first, and returns the ratio of the
// medians.
func byTurns(times int, one, other func() time.Duration) float64 {
	var ones, others []time.Duration
	for i := range times {
		if i%2 == 0 {
			ones = append(ones, one())
			others = append(others, other())
			continue
		}
		others = append(others, other())
		ones = append(ones, one())
	}
	slices.Sort(ones)
	slices.Sort(others)
	return float64(ones[len(ones)/2]) / float64(others[len(others)/2])
}

// rival is one of the two sides of a comparison.
type rival struct {
	*env
	url       string
	consumers []consumer
	// backend is the id of the server's process that admits.
	backend int
}

func newRival(b *testing.B, accounts int) rival {
	b.Helper()
	r := connect(b, template.Database(b))
	for range accounts {
		r.consumers = append(r.consumers, r.consumer(b, 1_000_000*money.USD))
	}
	return r
}

// connect makes a rival without consumers, with one connection.
func connect(b *testing.B, url string) rival {
	b.Helper()
	const roomy = 1_000_000
	pool, err := pg.Open(b.Context(), pg.Config{URL: url, Schema: store.Schema, Role: store.Role, MaxConns: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	r := rival{url: url, env: on(b, pool, pgtest.Owner(b, pool), limit.Defaults{
		LLMPerMinute: roomy, MultimodalPerMinute: roomy, EmbeddingPerMinute: roomy, ZeroPricedPerMinute: roomy,
		ImagePerMinute: roomy, AudioPerMinute: roomy, Concurrent: roomy,
	})}
	if err := pool.QueryRow(b.Context(), `SELECT pg_backend_pid()`).Scan(&r.backend); err != nil {
		b.Fatal(err)
	}
	return r
}

// addVersion adds another version of the function, in a schema of its own, with the columns that the
// version does not return.
func (r rival) addVersion(b *testing.B, text string) {
	b.Helper()
	text = strings.Replace(text, "FUNCTION admit(", "FUNCTION admit_requests(", 1)
	text = strings.Replace(text, "FUNCTION admit_requests(", "FUNCTION version.admit_requests(", 1)
	if !strings.Contains(text, "o_priority") {
		text = strings.Replace(text, "o_now timestamptz)",
			"o_now timestamptz, o_discount smallint, o_priority boolean)", 1)
		text = strings.Replace(text, "o_now := v_now;", "o_now := v_now; o_discount := 0; o_priority := false;", 1)
	}
	_, err := r.owner.Exec(b.Context(), "CREATE SCHEMA version; "+text+
		"; GRANT USAGE ON SCHEMA version TO PUBLIC; GRANT EXECUTE ON FUNCTION version.admit_requests TO PUBLIC")
	if err != nil {
		b.Fatal(err)
	}
}

// reconnect returns a rival with the same accounts on a new connection, which looks for functions in the
// schemas of path.
func (r rival) reconnect(b *testing.B, path string) rival {
	b.Helper()
	other := connect(b, r.url)
	other.consumers = r.consumers
	if _, err := other.pool.Exec(b.Context(), "SET search_path = "+path); err != nil {
		b.Fatal(err)
	}
	for range warmUpBatches {
		other.batch(b)
	}
	return other
}

// batch admits one batch by admit_requests, and returns the processor time that it took.
func (r rival) batch(b *testing.B) time.Duration {
	b.Helper()
	return r.batchBy(b, r.store.AdmitWhole, againstBatch)
}

// batchBy admits one batch of so many in one way, and returns the processor time that it took.
func (r rival) batchBy(b *testing.B, way admitting, size int) time.Duration {
	b.Helper()
	claims := make([]hold.Reservation, size)
	for i := range claims {
		claims[i] = r.reservation(b, r.consumers[i%len(r.consumers)], 1)
	}
	began := r.spent(b)
	decisions, err := way(b.Context(), claims)
	took := r.spent(b) - began
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range decisions {
		if d.Outcome != hold.Admitted {
			b.Fatalf("outcome: got %s, want %s", d.Outcome, hold.Admitted)
		}
	}
	return took
}

// spent is the processor time of the server's process so far.
func (r rival) spent(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", r.backend))
	if err != nil {
		b.Skipf("the system does not tell the processor time of a process: %v", err)
	}
	var spent time.Duration
	if _, err := fmt.Sscan(string(text), (*int64)(&spent)); err != nil {
		b.Fatal(err)
	}
	return spent
}
