package store_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/user"
)

const (
	// flooders is how many callers guess passwords at once, each call from another network and for another e-mail.
	flooders = 300
	// patience is how long a gateway waits for a sign-in.
	patience = 5 * time.Second
	// signIns is how often a user signs in, in a quiet time and in the flood.
	signIns = 15
)

// BenchmarkSignInFlood says what signing in costs, and what a flood of guesses takes from it. The baseline is the
// median of sign-ins in a quiet time, of the same run. In the flood a user signs in from a network that has signed in
// before, and from new ones, and tries again at once while there is no place. ratios are medians over the baseline.
// guesses/s is how many guesses were hashed, each of which takes 19 MiB and two passes of argon2id, and refused/s how
// many found no place and cost no hash. heap-MiB is the highest heap that was seen.
func BenchmarkSignInFlood(b *testing.B) {
	e := setup(b, unlimited)
	e.signUp(b, "ada@example.com")
	f := &flood{users: e.users(b)}
	quiet := f.median(b, func(int) string { return "home" })
	stop := f.begin(b)
	began := time.Now()
	known := f.median(b, func(int) string { return "home" })
	stranger := f.median(b, func(i int) string { return fmt.Sprintf("new %d", i) })
	took := time.Since(began).Seconds()
	hashed, refused := f.hashed.Load(), f.refused.Load()
	stop()
	b.ReportMetric(float64(quiet.Microseconds())/1000, "ms/sign-in")
	b.ReportMetric(float64(known)/float64(quiet), "known/quiet")
	b.ReportMetric(float64(stranger)/float64(quiet), "stranger/quiet")
	b.ReportMetric(float64(hashed)/took, "guesses/s")
	b.ReportMetric(float64(refused)/took, "refused/s")
	b.ReportMetric(float64(f.heap.Load())/(1<<20), "heap-MiB")
	b.ReportMetric(0, "ns/op")
}

// flood is many who guess passwords.
type flood struct {
	users           *user.Users
	hashed, refused atomic.Int64
	heap            atomic.Uint64
}

// median is the median of what signing in takes until it succeeds, from the network of each.
func (f *flood) median(b *testing.B, network func(i int) string) time.Duration {
	b.Helper()
	var took []time.Duration
	for i := range signIns {
		began := time.Now()
		for {
			ctx, cancel := context.WithTimeout(b.Context(), patience)
			_, err := f.users.LogIn(ctx, "ada@example.com", password, user.From{Network: network(i)})
			cancel()
			if err == nil {
				break
			}
			if !fault.Is(err, fault.ServiceUnavailable) {
				b.Fatal(err)
			}
		}
		took = append(took, time.Since(began))
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.heap.Store(max(f.heap.Load(), m.HeapInuse))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// begin has the flood guess until stop is called.
func (f *flood) begin(b *testing.B) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	var calls atomic.Int64
	for range flooders {
		all.Go(func() {
			for ctx.Err() == nil {
				n := calls.Add(1)
				_, err := f.users.LogIn(ctx, fmt.Sprintf("eve%d@example.com", n), "wrong horse",
					user.From{Network: fmt.Sprintf("net %d", n)})
				switch {
				case fault.Is(err, fault.InvalidCredentials):
					f.hashed.Add(1)
				case fault.Is(err, fault.ServiceUnavailable):
					f.refused.Add(1)
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}
