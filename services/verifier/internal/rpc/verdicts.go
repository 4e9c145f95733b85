package rpc

import (
	"time"

	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// verdictPlace is the place of a page of verdicts.
type verdictPlace struct {
	ID probe.VerdictID `json:"id"`
}

func verdictToProto(v store.Verdict) *verifierv1.Verdict {
	out := &verifierv1.Verdict{
		VerdictId: v.ID.String(), ProviderId: v.Offer.Provider.String(), ModelId: v.Offer.Model, Kind: string(v.Kind),
		Trigger: v.Trigger, At: moment(v.At), Summary: v.Summary, ShareBasisPoints: number(int(v.Effects.Slash)),
		Removes: v.Effects.Remove, NeedsOperator: v.NeedsOperator, OfVerdictId: idText(v.Of), End: v.End,
		EndedAt: moment(v.EndedAt),
	}
	if v.Leading != evidence.NoFamily {
		out.Family = v.Leading.String()
	}
	return out
}

// results are the words that people read.
var results = map[store.RunState]string{
	store.RunRunning: "running", store.RunPassed: "pass", store.RunFailed: "fail", store.RunVoid: "void",
}

func benchmarkToProto(r store.Run) *verifierv1.Benchmark {
	out := &verifierv1.Benchmark{
		RunId: r.ID.String(), ModelId: r.Offer.Model, Basis: "challenges", Result: results[r.State],
		StartedAt: moment(r.StartedAt), EndedAt: moment(r.EndedAt),
	}
	if r.Basis == store.Traffic {
		out.Basis = "traffic"
	}
	if !r.EndedAt.IsZero() {
		out.TakenMs = number(max(r.EndedAt.Sub(r.StartedAt), 0) / time.Millisecond)
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, string(f))
	}
	if r.State == store.RunPassed {
		out.ExpiresAt = moment(r.EndedAt.Add(standing.Fresh))
	}
	return out
}
