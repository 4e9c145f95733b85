// Package governor gives a process no more processors than it has work for.
//
// Go's scheduler wakes a thread for a goroutine that becomes ready while a processor is idle. The
// thread searches the queues for more work before it sleeps again. In a process that passes small
// messages on, a quarter to a third of the CPU goes into that, because each message goes through a
// few goroutines, and each of them wakes a thread. With one processor (GOMAXPROCS is 1) no other is
// idle, so no thread is woken, and the goroutines run one after another.
//
// The governor takes half of the processors away when fewer have been enough for a second, and again until one is
// left. It waits for longer, up to a minute, after the process has needed them back soon. It gives all of them
// back at the first look at which the process uses most of what it has, or its goroutines wait for a processor.
// Looks are 50 ms apart, and 500 ms while the process does next to nothing, at the ticks of its other loops.
//
// Where the environment sets GOMAXPROCS, the operator has decided, and the governor does nothing.
package governor

import (
	"context"
	"os"
	"runtime"
	"time"

	"svc.internal/pkg/clock"
)

const (
	// period is the pause between two looks at the process, and restPeriod the pause while it
	// does next to nothing.
	period     = 50 * time.Millisecond
	restPeriod = 500 * time.Millisecond
	// rest is the use below which the process does next to nothing. A use is CPU time by time, so
	// 1 is one processor that is always busy.
	rest = 0.05
	// widen is the use of each processor at which the process gets all of them. narrow is the use that each
	// processor may have when half of them do the work: below it, the other half is taken away. The distance
	// between the two keeps a steady load from changing the processors for ever.
	widen  = 0.8
	narrow = 0.65
	// tolerated is the share of waits for a processor that may be long (see longWait), and few how
	// many may be, whatever their share. Go counts one wait in eight.
	tolerated = 0.05
	few       = 4
	// leastCalm is for how long fewer processors must have been enough before they are taken away.
	// A process that needs them back within steady must be calm for twice as long the next time,
	// up to longestCalm. Each change stops the process for some ten microseconds.
	leastCalm   = time.Second
	longestCalm = time.Minute
	steady      = 10 * time.Second
)

// Run governs the process until ctx ends, and then gives it all its processors.
func Run(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	m, err := newMeter()
	if err != nil {
		return // the system does not say how much CPU time a process has used
	}
	defer runtime.SetDefaultGOMAXPROCS()
	run(ctx, m.read, func(n int) (all int) {
		if n > 0 {
			runtime.GOMAXPROCS(n)
			return 0
		}
		runtime.SetDefaultGOMAXPROCS() // which follows the limit of the container again
		return runtime.GOMAXPROCS(0)
	})
}

// run looks at the process, and calls set when a look changes how many processors it needs. set gets
// their number, or 0 for all, and returns how many all are.
func run(ctx context.Context, read func() (totals, error), set func(n int) (all int)) {
	all := set(0)
	s := state{all: all, procs: all, calm: leastCalm}
	before, err := read()
	at, pause := time.Now(), period
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for ; err == nil; timer.Reset(pause) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var now totals
		if now, err = read(); err != nil {
			return
		}
		took := time.Since(at)
		seen := now.since(before, took)
		before, at = now, at.Add(took)
		switch changed := s.look(seen); {
		case changed && s.procs == s.all:
			s.all = set(0)
			s.procs = s.all
		case changed:
			set(s.procs)
		}
		if pause = period; seen.use < rest {
			pause = clock.ToTick(restPeriod)
		}
	}
}

// state is what the process has and needs.
type state struct {
	all, procs int
	quiet      time.Duration // for how long fewer processors would have been enough
	calm       time.Duration // how long that must be
	held       time.Duration // for how long the process has had as many as now
}

// look takes what the process did since the last look. It reports whether the process needs another
// number of processors now.
func (s *state) look(l load) (changed bool) {
	s.held += l.took
	waiting := l.long > few && float64(l.long) > tolerated*float64(l.waits)
	crowded := waiting || l.use >= widen*float64(s.procs)
	if crowded && s.procs < s.all {
		if s.calm *= 2; s.held >= steady {
			s.calm = leastCalm
		}
		s.have(s.all)
		s.calm = min(s.calm, longestCalm)
		return true
	}
	half := s.procs / 2
	if crowded || s.procs == 1 || l.use >= narrow*float64(half) {
		s.quiet = 0
		return false
	}
	if s.quiet += l.took; s.quiet < s.calm {
		return false
	}
	s.have(half)
	return true
}

func (s *state) have(n int) { s.procs, s.quiet, s.held = n, 0, 0 }
