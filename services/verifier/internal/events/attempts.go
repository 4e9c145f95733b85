package events

import (
	"context"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
)

func (l *Listener) attempts(_ context.Context, m bus.Message) {
	var msg eventsv1.AttemptBatch
	if proto.Unmarshal(m.Data, &msg) != nil || len(msg.GetAttempts()) > maxAttempts {
		l.refused.Add(1)
		return
	}
	for _, a := range msg.GetAttempts() {
		if a.GetProbe() || a.GetAttempt() == 0 {
			continue // a warm-up, or an attempt that never began
		}
		l.attempt(a)
	}
}

// attempt counts an attempt that says something of its provider: it served, or it failed.
// A failure that is excused says little, and one that the provider did not cause nothing.
func (l *Listener) attempt(a *eventsv1.Attempt) {
	served := a.GetOutcome() == eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED
	failed := a.GetOutcome() == eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED
	provider, err := ids.ParseProvider(a.GetProviderId())
	if err != nil || !text(a.GetModelId(), 1, maxModelID) || !text(a.GetRequestId(), 1, maxShortText) ||
		len(a.GetAccountTag()) > maxTag {
		l.refused.Add(1)
		return
	}
	if !served && !failed {
		return
	}
	o := probe.Offer{Provider: provider, Model: a.GetModelId()}
	l.deps.Traffic.Attempted(o, served, l.deps.Clock.Now())
	if failed && a.GetExcused() {
		return
	}
	l.deps.Pairing.Attempted(pairing.Attempt{
		Request: a.GetRequestId(), Account: string(a.GetAccountTag()), Offer: o, Failed: failed,
		At: l.deps.PairClock.Now(),
	})
}
