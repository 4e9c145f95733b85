// Package gates holds what the product may cost, and judges figures by it. The
// numbers stand in All and nowhere else.
package gates

import "inference-bench/internal/figures"

// MaxLoad is the load average of others above which no figure of time is judged.
const MaxLoad = 3

// Gate is the bounds of one figure of one target: the gate proper, which is
// not to be missed, the target that is worked towards, and the stretch beyond it.
type Gate struct {
	Figure, Target string
	// AtLeast makes the bounds lower ones.
	AtLeast bool
	// Gate, Aim and Stretch are the bounds; one without a limit is none.
	Gate, Aim, Stretch *Bound
}

// Bound is Limit, or Limit times another figure, plus another figure.
type Bound struct {
	Limit float64
	Times *Ref
	Plus  *Ref
}

// Ref is the value of a figure of a target in the same run.
type Ref struct{ Figure, Target string }

func limit(x float64) *Bound { return &Bound{Limit: x} }

// split is what separate processes may cost: half more than the floor of
// their shape, and what the ledger needs.
func split(figure, ledger string) *Bound {
	return &Bound{Limit: 1.5, Times: &Ref{figure, figures.Split}, Plus: &Ref{ledger, figures.Fleet}}
}

// All are the gates, in the order in which they are printed.
func All() []Gate {
	twiceTheRate := &Bound{Limit: 2, Times: &Ref{"rate", figures.Standalone}}
	one, fleet := figures.Standalone, figures.Fleet
	return []Gate{
		{Figure: "cpu_small", Target: one, Gate: limit(20), Aim: limit(15), Stretch: limit(12)},
		{Figure: "open_300", Target: one, Gate: limit(8), Aim: limit(6), Stretch: limit(5)},
		{Figure: "cpu_32k", Target: one, Gate: limit(16), Aim: limit(12), Stretch: limit(10)},
		{Figure: "event_64", Target: one, Gate: limit(3.0), Aim: limit(2.4), Stretch: limit(2.2)},
		{Figure: "event_512", Target: one, Gate: limit(2.5), Aim: limit(2.0), Stretch: limit(1.7)},
		{Figure: "idle_cpu", Target: one, Gate: limit(3), Aim: limit(3)},
		{Figure: "added_p50", Target: one, Gate: limit(800), Aim: limit(600), Stretch: limit(400)},
		{Figure: "first_token", Target: one, Gate: limit(1200), Aim: limit(1000), Stretch: limit(700)},
		{Figure: "nominal_2000", Target: one, AtLeast: true, Gate: limit(0.6), Aim: limit(0.85), Stretch: limit(0.92)},
		{Figure: "memory", Target: one, Gate: limit(128), Aim: limit(64), Stretch: limit(40)},
		{Figure: "idle_socket", Target: one, Gate: limit(24), Aim: limit(14), Stretch: limit(12)},
		{Figure: "admissions", Target: figures.Ledger, AtLeast: true, Gate: twiceTheRate, Aim: limit(8_000)},
		{Figure: "settles", Target: figures.Ledger, AtLeast: true, Gate: twiceTheRate, Aim: limit(20_000),
			Stretch: limit(30_000)},
		{Figure: "journal", Target: figures.Hub, AtLeast: true, Gate: limit(20_000), Aim: limit(60_000)},
		{Figure: "failures", Target: one, Gate: limit(0), Aim: limit(0), Stretch: limit(0)},
		{Figure: "cpu_small", Target: fleet, Aim: limit(60)},
		{Figure: "cpu_small", Target: figures.Grouped, Aim: limit(40)},
		{Figure: "cpu_small", Target: fleet, Gate: split("cpu_small", "ledger_small")},
		{Figure: "cpu_32k", Target: fleet, Gate: split("cpu_32k", "ledger_32k")},
		{Figure: "event_512", Target: fleet, Gate: split("event_512", "ledger_512")},
		{Figure: "event_64", Target: fleet, Gate: split("event_64", "ledger_64")},
		{Figure: "added_p50", Target: fleet, Gate: &Bound{Limit: 1.5, Times: &Ref{"added_p50", figures.Split}}},
		{Figure: "failures", Target: fleet, Gate: limit(0)},
	}
}
