//go:build unix

package governor

import (
	"math"
	"runtime/metrics"
	"syscall"
	"time"
)

// waitTimes is the runtime's histogram of how long goroutines were ready before they ran.
const waitTimes = "/sched/latencies:seconds"

// meter reads the totals of the process.
type meter struct{ sample [1]metrics.Sample }

func newMeter() (*meter, error) {
	m := &meter{sample: [1]metrics.Sample{{Name: waitTimes}}}
	_, err := m.read()
	return m, err
}

func (m *meter) read() (totals, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return totals{}, err
	}
	metrics.Read(m.sample[:])
	t := totals{cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	if m.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return t, nil // a later runtime may not have it
	}
	t.waits, t.long = count(m.sample[0].Value.Float64Histogram())
	return t, nil
}

// count returns how many waits a histogram holds, and how many of them were surely long.
func count(h *metrics.Float64Histogram) (waits, long uint64) {
	for i, n := range h.Counts {
		waits += n
		if from := h.Buckets[i]; !math.IsInf(from, -1) && from >= longWait.Seconds() {
			long += n
		}
	}
	return waits, long
}
