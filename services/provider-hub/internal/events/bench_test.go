package events

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPublish measures what usage costs in CPU on its way to a consumer, the NATS
// server's share included, with so many events published at once. Events of a recorded
// trace go alone.
func BenchmarkPublish(b *testing.B) {
	for _, trace := range []string{recorded, unrecorded} {
		for _, together := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("bundled=%t/together=%d", trace == unrecorded, together), func(b *testing.B) {
				f := setup(b)
				payload := make([]byte, 400)
				before := cpuTime(b)
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; n += together {
					all := make([]waiting, together)
					for i := range all {
						all[i] = waiting{id: fmt.Sprint(n + i), payload: payload, traceparent: trace}
					}
					if !f.usage.publish(b.Context(), all) {
						b.Fatal("it was not taken")
					}
					for range bundles(b.Context(), all) {
						f.next(b)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
			})
		}
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
