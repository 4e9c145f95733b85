package provider

import (
	"context"
	"slices"
	"time"

	"svc.internal/pkg/ids"
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

// takenOutStore is what TakenOut needs of a store.
type takenOutStore interface {
	// LeftActive reads the entries of the change by which a provider left the status active
	// last, up to the entry of that, the earliest first; none for a provider that never
	// was active.
	LeftActive(ctx context.Context, id ids.ProviderID) ([]Entry, error)
}

// TakenOut is why the platform took a provider out of service; zero where it did not.
type TakenOut struct {
	At time.Time
	// What names the fact or judgement in words. Reason is what was said of it by the
	// verifier, settlement or a measurement. An operator's reason is no reading for the
	// provider.
	What, Reason string
}

// takenOut reads why an account that was active is so no longer.
func (d *Directory) takenOut(ctx context.Context, a Account) (TakenOut, error) {
	if !a.WasActive || a.Status == Active || !a.Status.MayConnect() {
		return TakenOut{}, nil
	}
	entries, err := d.store.LeftActive(ctx, a.ID)
	if err != nil {
		return TakenOut{}, err
	}
	i := slices.IndexFunc(entries, func(e Entry) bool { return takenOutBy[e.What] != "" })
	if i < 0 {
		return TakenOut{}, nil
	}
	e := entries[i]
	out := TakenOut{At: e.At, What: takenOutBy[e.What]}
	if e.By == ByPlatform {
		out.Reason = e.Reason
	}
	return out, nil
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
