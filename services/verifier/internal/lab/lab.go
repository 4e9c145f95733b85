// Package lab measures what verification sees of cheats and does to honest providers,
// without GPUs and without services: it calls the packages of rules and the models of
// pkg/tinylm directly.
//
// # What is measured
//
//   - Powers: the share of a cheat's answers that exceed in families B and C, and how many
//     answers family R needs (powers.go). Thresholds come from a calibration of two honest
//     hosts with the required number of challenges each.
//   - Honest years: how often M crosses a threshold, whether a provider that is honest, or
//     that exceeds three times as often as was calibrated, is ever noticed or slashed
//     (honest.go).
//   - Detection: days until a notice and until the first penalty, by the share of requests
//     that is served otherwise (detection.go).
//   - Windows: how near the measured context window is, and with how many prompts
//     (windows.go), and whether family D sees a window of half the stated size (recall.go).
//
// # Gates
//
// Each measurement is a Gate: what the design says, what was measured, and a tolerance. A
// gate that is known to be missed has its reason in known.go, and fails nothing.
//
// All chance comes from fixed seeds, so that the same code measures the same figures on
// every machine, however many cores it has.
package lab

import (
	"context"
	"sync"
	"sync/atomic"
)

// Options say how much is measured.
type Options struct {
	// Full measures with the numbers of the design. Otherwise there are fewer years and
	// windows, and the tolerances of simulated rates are wider by three standard errors.
	Full bool
	// Workers is the number of goroutines that measure; 0 is one for each processor.
	Workers int
	// Progress is told what begins; nil tells nobody.
	Progress func(what string)
}

// scale returns a number for full runs and one for short ones.
func (o Options) scale(full, short int) int {
	if o.Full {
		return full
	}
	return short
}

// spread calls f for 0 to n−1 on the workers, and returns the results in order. It ends with
// the first error.
func spread[T any](ctx context.Context, o Options, n int, f func(context.Context, int) (T, error)) ([]T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]T, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(o.Workers, n) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				var err error
				if results[i], err = f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return results, nil
}
