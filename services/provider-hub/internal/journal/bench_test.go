package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/journal"
)

func contextForever() context.Context { return context.Background() }

func realConfig(dir string) journal.Config {
	return journal.Config{Dir: dir, Clock: &ticker{}, SegmentBytes: 64 << 10}
}

// BenchmarkFinal measures acknowledged finals a second with so many writers at
// once. Beside it stand the p50 and the mean of a plain append and sync on the
// same disk, without which the figure means nothing.
func BenchmarkFinal(b *testing.B) {
	for _, writers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			p50, mean := plainSync(b)
			cfg := realConfig(b.TempDir())
			cfg.SegmentBytes = 64 << 20
			j, _ := open(b, cfg)
			payload := make([]byte, 400)
			var next atomic.Int64
			var group sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range writers {
				group.Go(func() {
					for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
						serveOnce(b, j, keyOf(n), payload)
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "finals/s")
			b.ReportMetric(float64(p50.Microseconds()), "sync-p50-µs")
			b.ReportMetric(float64(mean.Microseconds()), "sync-mean-µs")
		})
	}
}

func serveOnce(b *testing.B, j *journal.Journal, k journal.Key, payload []byte) {
	if err := j.Dispatch(k, payload); err != nil {
		b.Error(err)
	}
	if err := j.Final(b.Context(), k, payload); err != nil {
		b.Error(err)
	}
	if err := j.Settled(k); err != nil {
		b.Error(err)
	}
}

// BenchmarkDispatch measures what a lazy record costs its caller.
func BenchmarkDispatch(b *testing.B) {
	cfg := realConfig(b.TempDir())
	cfg.SegmentBytes, cfg.MaxBatch = 64<<20, 1<<30
	j, _ := open(b, cfg)
	payload := make([]byte, 400)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := j.Dispatch(keyOf(n), payload); err != nil {
			b.Fatal(err)
		}
		if err := j.Void(keyOf(n)); err != nil {
			b.Fatal(err)
		}
	}
}

func plainSync(b *testing.B) (p50, mean time.Duration) {
	b.Helper()
	file, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	var sum time.Duration
	took := make([]time.Duration, 300)
	for i := range took {
		start := time.Now()
		if _, err := file.Write(make([]byte, 1000)); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
		sum += took[i]
	}
	slices.Sort(took)
	return took[len(took)/2], sum / time.Duration(len(took))
}

// BenchmarkRequest measures what the records of a request cost in CPU, the kernel's
// included, with so many requests under way. An engine answers after a millisecond.
func BenchmarkRequest(b *testing.B) {
	for _, connections := range []int{1, 16} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			cfg := realConfig(b.TempDir())
			cfg.SegmentBytes = 64 << 20
			j, _ := open(b, cfg)
			payload := make([]byte, 400)
			var next atomic.Int64
			var group sync.WaitGroup
			before := cpuTime(b)
			b.ResetTimer()
			for range connections {
				group.Go(func() {
					engine := time.NewTimer(time.Hour)
					for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
						k := keyOf(n)
						err := j.Dispatch(k, payload)
						engine.Reset(time.Millisecond)
						<-engine.C
						err = errors.Join(err, j.Commit(k), j.Final(b.Context(), k, payload), j.Settled(k))
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpuTime is what the process has used of the CPUs, for itself and in the kernel.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
