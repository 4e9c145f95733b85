package events

import (
	"log/slog"
	"testing"

	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/session"
)

func TestRoutersHearWhatBecameOfAWarmUpThatTheEngineWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		answer session.Warmed
		want   eventsv1.AttemptOutcome // 0 where routers hear nothing
	}{
		"loaded":    {session.Warmed{Model: "m", Success: true}, eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED},
		"failed":    {session.Warmed{Model: "m", Error: "out of memory"}, eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED},
		"not tried": {session.Warmed{Model: "m", Error: "too many wait", NotTried: true}, 0},
	} {
		a := NewAttempts("hub-a", nil, slog.New(slog.DiscardHandler))
		a.Probed(session.Identity{ProviderID: ids.ProviderID{1}, NodeID: "n", Epoch: 7}, c.answer)
		if heard := len(a.queue) == 1; heard != (c.want != 0) {
			t.Errorf("%s: got heard %v, want %v", name, heard, c.want != 0)
			continue
		}
		if c.want == 0 {
			continue
		}
		got := attemptOf(<-a.queue)
		if !got.GetProbe() || got.GetOutcome() != c.want || got.GetModelId() != "m" || got.GetNodeId() != "n" ||
			got.GetEpoch() != 7 || got.GetRequestId() != "" {
			t.Errorf("%s: got %v, want a probe of the node with outcome %v and no request", name, got, c.want)
		}
	}
}

func TestAnAttemptTellsRoutersWhoseItWas(t *testing.T) {
	got := attemptOf(dispatch.Report{AccountTag: []byte("8 bytes!"), Excused: true, Chat: true, Prompt: 5,
		Blocked: 7_000_000, Outcome: dispatch.Failed})
	if string(got.GetAccountTag()) != "8 bytes!" || !got.GetExcused() || !got.GetChat() || got.GetPromptTokens() != 5 ||
		got.GetCallerBlockedMs() != 7 || got.GetProbe() {
		t.Errorf("got %v, want all that the report says", got)
	}
}
