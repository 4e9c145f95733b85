package verification

import (
	"net/http"
	"slices"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/cheat"
)

// scheme is a way to cheat.
type scheme struct {
	// name is that of the provider, and model the only one that it serves.
	name, model string
	// v1 has an agent of the old dialect.
	v1 bool
	// engine serves as the provider does once it was admitted. Nil is no provider that cheats.
	engine func(t testing.TB, seed uint64) http.Handler
	// leads are the families of hidden probes of which one may lead to the notice: see mayLead.
	leads []string
	// capped reports whether the notice caps the window, instead of leaving the main lane.
	capped bool
	// penalized has the test go on to the penalty, its appeal and reversal.
	penalized bool
}

// mayLead reports whether a family may lead to the notice. The engine of a cheat answers
// challenges as it answers requests, so what they show may be enough. A cap follows from
// recalls alone.
func (s scheme) mayLead(family string) bool {
	return slices.Contains(s.leads, family) || !s.capped && family == "visible"
}

// lyingWindow is the window of the provider that lies about it, in the tokens of package
// fakeengine. It is about 8,000 bytes, half of what is stated.
const lyingWindow = 2_000

// truncated is how much of a prompt a provider reads that saves work by truncation.
const truncated = 64

// rerouted is how many of a hundred requests a provider serves with less than it states.
// The laboratory measures smaller shares, which take the probes of weeks.
const rerouted = 50

var schemes = []scheme{
	{name: "four-bit", model: "lab/four-bit", penalized: true, leads: []string{"greedy", "sampled", "logprobs"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.FourBit(seed)) }},
	{name: "four-bit-v1", model: "lab/four-bit-v1", v1: true, penalized: true,
		leads:  []string{"greedy", "sampled", "logprobs"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.FourBit(seed)) }},
	{name: "eight-bit", model: "lab/eight-bit", leads: []string{"logprobs", "greedy"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.EightBit(seed)) }},
	{name: "smaller", model: "lab/smaller", leads: []string{"greedy", "sampled", "logprobs", "usage"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.Smaller(seed)) }},
	{name: "other-training", model: "lab/other-training", leads: []string{"greedy", "sampled", "logprobs", "usage"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.OtherTraining(seed)) }},
	{name: "hotter", model: "lab/hotter", leads: []string{"greedy", "sampled", "usage"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.Hotter(seed)) }},
	{name: "truncating", model: "lab/truncating", leads: []string{"greedy", "sampled", "logprobs", "usage", "recall"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.Truncating(seed, truncated)) }},
	{name: "cached", model: "lab/cached", leads: []string{"greedy", "sampled", "logprobs", "usage"},
		engine: func(t testing.TB, seed uint64) http.Handler {
			return recalls(t, cheat.NewCached(cheat.Honest(seed)))
		}},
	{name: "fine-tune", model: "lab/fine-tune", leads: []string{"greedy", "sampled", "logprobs"},
		engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.FineTune(seed)) }},
	{name: "rerouting", model: "lab/rerouting", leads: []string{"greedy", "sampled", "logprobs", "usage"},
		engine: func(t testing.TB, seed uint64) http.Handler {
			return recalls(t, cheat.Rerouting(cheat.Honest(seed), cheat.FourBit(seed), rerouted))
		}},
}

// nobody cheats: the model of the honest provider alone.
var nobody = scheme{name: "nobody", model: "lab/nobody"}

// windowLie is found by the recalls of weeks, where hours suffice for the others.
var windowLie = scheme{name: "window-lie", model: "lab/window-lie", leads: []string{"recall"}, capped: true,
	engine: func(t testing.TB, seed uint64) http.Handler {
		return cheat.Recalling(t, cheat.Honest(seed), fakeengine.Recall{WindowTokens: lyingWindow})
	}}

// recalls returns an engine that recalls all needles, as an honest host does.
func recalls(t testing.TB, chat http.Handler) http.Handler {
	t.Helper()
	return cheat.Recalling(t, chat, fakeengine.Recall{})
}
