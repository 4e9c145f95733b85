package hardware

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"
)

// Pauses before a program that failed is run again.
const (
	againFirst     = 10 * time.Second
	maxRepeatPause = 10 * time.Minute
)

// Finder looks for GPUs until it knows whether there are any. Of its methods only Report
// may be called while another runs.
type Finder struct {
	log    *slog.Logger
	run    run
	system string

	known bool
	told  string // the failure that was logged last
	found atomic.Pointer[Report]
}

// NewFinder makes a finder that has not looked yet.
func NewFinder(log *slog.Logger) *Finder {
	return &Finder{log: log, run: runProgram, system: runtime.GOOS}
}

// Report is the machine as far as it is known; nil for nothing.
func (f *Finder) Report() *Report { return f.found.Load() }

// Look looks once, unless the answer is known.
func (f *Finder) Look(ctx context.Context) {
	if f.known {
		return
	}
	report, err := detect(ctx, f.run, f.system)
	switch {
	case err == nil:
		f.known = true
		f.found.Store(report)
		if f.told != "" {
			f.log.Info("the GPUs could be asked for", "found", report != nil)
		}
	case ctx.Err() != nil: // the agent stops
	case err.Error() == f.told:
		f.log.Debug("the GPUs still cannot be asked for", "reason", err)
	default:
		f.told = err.Error()
		f.log.Warn("the GPUs cannot be asked for; the hub hears of none until they can", "reason", err)
	}
}

// Run looks again, ever more rarely, until ctx ends or the answer is known.
func (f *Finder) Run(ctx context.Context) {
	for pause := againFirst; !f.known; pause = min(2*pause, maxRepeatPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		f.Look(ctx)
	}
}
