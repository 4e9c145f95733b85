package provider

import (
	"slices"
	"time"
)

// takenOutBy says in words which fact or judgement ended an activation. What is not here
// needs no words of its own: a suspension and a removal have theirs.
var takenOutBy = map[string]string{
	BenchmarkWithdrawn:      "the benchmark counts no longer",
	CollateralWithdrawn:     "the collateral is confirmed no longer",
	GPUWaiverWithdrawn:      "the GPU rule is waived no longer",
	string(FailProbation):   "the probation was failed",
	string(ExpireBenchmark): "the benchmark expired",
	string(Withdraw):        "what was confirmed was withdrawn",
}

// TakenOut is why the platform took a provider out of service; zero where it did not.
type TakenOut struct {
	At time.Time
	// What names the fact or judgement in words. Reason is what was said of it by the
	// verifier, settlement or a measurement. An operator's reason is no reading for the
	// provider.
	What, Reason string
}

// takenOutOf finds the reason among the entries of the change that ended an activation.
func takenOutOf(entries []Entry) TakenOut {
	i := slices.IndexFunc(entries, func(e Entry) bool { return takenOutBy[e.What] != "" })
	if i < 0 {
		return TakenOut{}
	}
	e := entries[i]
	out := TakenOut{At: e.At, What: takenOutBy[e.What]}
	if e.By == ByPlatform {
		out.Reason = e.Reason
	}
	return out
}

// warning says why a provider was taken out; empty where it was not.
func (t TakenOut) warning() string {
	if t.What == "" {
		return ""
	}
	text := "Taken out of service at " + t.At.UTC().Format(time.RFC3339) + ": " + t.What
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	return text + "."
}
