package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"svc.internal/services/billing-ledger/internal/slice"
)

// BenchmarkTurn measures the processor time of the server's process for a transaction of turns, and
// for each request that it writes. It compares with BenchmarkPlainAgainstWhole.
func BenchmarkTurn(b *testing.B) {
	for _, size := range []struct{ accounts, pins int }{{1, 0}, {1, 10}, {1, 100}, {16, 10}, {100, 2}} {
		b.Run(fmt.Sprintf("accounts=%d/pins=%d", size.accounts, size.pins), func(b *testing.B) {
			r := newRival(b, size.accounts)
			o := &sliceOwner{env: r.env, owner: slice.Owner{ID: [16]byte{1}}}
			turns := make([]slice.Turn, size.accounts)
			for i, c := range r.consumers {
				turns[i] = slice.Turn{Account: c.account, Want: 1000 * cent, Places: slice.MaxPlaces}
			}
			states := o.turn(b, turns...)
			requests := max(size.accounts*size.pins, 1)
			var times []time.Duration
			for b.Loop() {
				for i, c := range r.consumers {
					turns[i].Epoch, turns[i].Now, turns[i].Pins = states[i].Epoch, states[i].Account.Now, nil
					for range size.pins {
						turns[i].Pins = append(turns[i].Pins, o.pins(b, c, states[i], 1)...)
					}
				}
				began := r.spent(b)
				states = o.turn(b, turns...)
				times = append(times, r.spent(b)-began)
			}
			slices.Sort(times)
			median := float64(times[len(times)/2].Microseconds())
			b.ReportMetric(median, "server-µs/turn")
			b.ReportMetric(median/float64(requests), "server-µs/request")
		})
	}
}
