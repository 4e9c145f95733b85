package standing_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/standing"
)

// start is when careers begin.
var start = time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)

// offer is an offer on its way, with its world and its clock.
type offer struct {
	t        *testing.T
	state    standing.State
	world    standing.World
	now      time.Time
	n        int
	last     standing.Outcome
	verdicts []standing.Verdict
	host     string
}

func begin(t *testing.T) *offer {
	t.Helper()
	return &offer{
		t: t, state: standing.New(start), now: start, host: "reference-1",
		world: standing.World{
			Offer: judgetest.Offer, Limits: ladder.DemoThresholds(), Rank: 1, ActiveSince: start, StatedTokens: 8_192,
		},
	}
}

// try applies an event without keeping what comes of it.
func (o *offer) try(e standing.Event) (standing.State, standing.Outcome, error) {
	o.n++
	o.world.Key = fmt.Sprintf("event-%d", o.n)
	return o.state.Apply(e, o.now, o.world)
}

// apply applies an event, which must be possible, and checks that the state that was is as
// it was and that the state that is has a form that is read back.
func (o *offer) apply(e standing.Event) standing.Outcome {
	o.t.Helper()
	before := o.form(o.state)
	was := o.state
	next, out, err := o.try(e)
	if err != nil {
		o.t.Fatalf("event %d (%s): %v", o.n, e.Name(), err)
	}
	if !bytes.Equal(o.form(was), before) {
		o.t.Fatalf("event %d (%s) changed the state that it was given", o.n, e.Name())
	}
	form := o.form(next)
	var read standing.State
	if err := read.UnmarshalBinary(form); err != nil {
		o.t.Fatalf("event %d (%s): the state's form cannot be read: %v", o.n, e.Name(), err)
	}
	o.keep(next, out)
	return out
}

// keep takes a step without checks of its form, for long simulations.
func (o *offer) keep(s standing.State, out standing.Outcome) {
	o.state, o.last = s, out
	o.verdicts = append(o.verdicts, out.Verdicts...)
	for _, v := range out.Verdicts {
		if o.world.Penalties = max(0, o.world.Penalties+v.Effects.Count); v.Effects.Count > 0 {
			o.world.LastPenaltyAt = o.now
		}
	}
}

func (o *offer) form(s standing.State) []byte {
	o.t.Helper()
	b, err := s.MarshalBinary()
	if err != nil {
		o.t.Fatalf("write the state: %v", err)
	}
	return b
}

// greedy applies a probe of B and U.
func (o *offer) greedy(exceeded bool) standing.Outcome {
	o.t.Helper()
	return o.judged(judgetest.Greedy(o.t, judgetest.Say{N: o.n, Exceeded: exceeded, Host: o.host}))
}

func (o *offer) judged(r judge.Record) standing.Outcome {
	o.t.Helper()
	return o.apply(standing.Event{Judged: &r})
}

func (o *offer) recall(exceeded bool) standing.Outcome {
	o.t.Helper()
	return o.judged(judgetest.Recall(o.t, judgetest.Say{N: o.n, Exceeded: exceeded, Host: o.host}))
}

func (o *offer) tick() standing.Outcome {
	o.t.Helper()
	return o.apply(standing.Event{Ticked: &standing.Tick{}})
}

func (o *offer) wait(d time.Duration) { o.now = o.now.Add(d) }

// until applies exceeding probes every half hour until the level is reached, and returns
// how many it took.
func (o *offer) until(level ladder.Level) int {
	o.t.Helper()
	for n := range 500 {
		if o.state.Level == level {
			return n
		}
		o.wait(30 * time.Minute)
		o.greedy(true)
	}
	o.t.Fatalf("got the level %s, want %s", o.state.Level, level)
	return 0
}

// confirmed brings the offer to a penalty.
func (o *offer) penalized() {
	o.t.Helper()
	o.until(ladder.Confirm)
	o.host = "reference-2"
	o.until(ladder.Penalty)
}

// triggers are those of the verdicts so far.
func (o *offer) triggers() string {
	out := ""
	for _, v := range o.verdicts {
		out += v.Trigger + " "
	}
	return out
}

// newest is the newest verdict.
func (o *offer) newest() standing.Verdict {
	o.t.Helper()
	if len(o.verdicts) == 0 {
		o.t.Fatal("there is no verdict")
	}
	return o.verdicts[len(o.verdicts)-1]
}

func dice(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 1))
}

// is reports a difference.
func is[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
