package router

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// explained is what the router reports of a provider, rejects by reason.
func explained(t *testing.T, b *bundle, provider string) (map[string]int64, []*routerv1.ModelHealth) {
	t.Helper()
	resp, err := b.client.ExplainProvider(t.Context(), &routerv1.ExplainProviderRequest{ProviderId: provider})
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(resp.GetSince().AsTime()); age < 0 || age > limit {
		t.Errorf("counts since: got %v, want 0 to %v", age, limit)
	}
	rejects := map[string]int64{}
	for _, r := range resp.GetRejects() {
		rejects[r.GetReason()] = r.GetCount()
	}
	return rejects, resp.GetModels()
}

func TestAProviderIsToldWhyItGetsNoTraffic(t *testing.T) {
	conn := bustest.New(t)
	inactive := session(2, "m", 1000, 4)
	inactive.Active = false
	h := newHub(t, conn, "a", session(1, "m", 1000, 2), inactive)
	b := start(t, conn)
	eventually(t, "the sessions are known", func() bool { return b.sessions() == 2 })
	if _, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r1", ModelId: "m"}); err != nil {
		t.Fatal(err)
	}
	_, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r2", ModelId: "m", PromptTokens: 1001})
	if !fault.Is(err, fault.ContextLengthExceeded) {
		t.Fatalf("got the error %v, want the reason %v", err, fault.ContextLengthExceeded)
	}
	rejects, models := explained(t, b, id(1))
	switch {
	case len(rejects) != 1:
		t.Fatalf("len(rejects): got %d, want 1, in %v", len(rejects), rejects)
	case rejects["window_too_small"] != 1:
		t.Fatalf(`rejects["window_too_small"]: got %d, want 1`, rejects["window_too_small"])
	case len(models) != 1:
		t.Fatalf("len(models): got %d, want 1, in %v", len(models), models)
	}
	want := &routerv1.ModelHealth{ModelId: "m", Nodes: 1, AvailableNodes: 1, InFlight: 1, Capacity: 2, Breaker: "closed",
		Chosen: 1, Lane: "main", ContextLength: 1000, ReportedContextLength: 1000, Trust: "normal"}
	if !proto.Equal(models[0], want) {
		t.Errorf("model: got %v, want %v", models[0], want)
	}
	rejects, models = explained(t, b, id(2))
	switch {
	case rejects["not_active"] != 2:
		t.Errorf(`rejects["not_active"]: got %d, want 2`, rejects["not_active"])
	case len(models) != 1:
		t.Errorf("len(models): got %d, want 1, in %v", len(models), models)
	case models[0].GetNodes() != 1:
		t.Errorf("models[0].GetNodes(): got %d, want 1", models[0].GetNodes())
	case models[0].GetAvailableNodes() != 0:
		t.Errorf("models[0].GetAvailableNodes(): got %d, want 0", models[0].GetAvailableNodes())
	}
	failed := &eventsv1.AttemptBatch{HubId: "a"}
	for account := range byte(3) {
		failed.Attempts = append(failed.Attempts, &eventsv1.Attempt{RequestId: "r1", Attempt: 1, ProviderId: id(1),
			NodeId: "n", Epoch: 1,
			ModelId: "m", Outcome: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED, AccountTag: []byte{7: account + 1}})
	}
	failed.Attempts = append(failed.Attempts, &eventsv1.Attempt{RequestId: "r3", Attempt: 1, ProviderId: id(1),
		NodeId: "n", Epoch: 1,
		ModelId: "m", Outcome: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_BUSY})
	h.send(bus.SubjectAttempts("a"), failed)
	eventually(t, "the breaker is open and the capacity lower", func() bool {
		_, models := explained(t, b, id(1))
		return models[0].GetBreaker() == "open" && models[0].GetAvailableNodes() == 0 && models[0].GetCapacity() == 1
	})
	if rejects, models := explained(t, b, id(98)); len(rejects) != 0 {
		t.Errorf("of who is not connected: len(rejects): got %d, want 0, in %v", len(rejects), rejects)
	} else if len(models) != 0 {
		t.Errorf("of who is not connected: len(models): got %d, want 0, in %v", len(models), models)
	}
	for _, malformed := range []string{"", "x"} {
		_, err := b.client.ExplainProvider(t.Context(), &routerv1.ExplainProviderRequest{ProviderId: malformed})
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("%q: got the error %v, want a fault", malformed, err)
		case f.Reason != fault.InvalidValue:
			t.Errorf("%q: f.Reason: got %q, want %q", malformed, f.Reason, fault.InvalidValue)
		case f.Param != "provider_id":
			t.Errorf(`%q: f.Param: got %q, want "provider_id"`, malformed, f.Param)
		}
	}
}

func TestOfferingsTellUptimeAndProbation(t *testing.T) {
	conn := bustest.New(t)
	known, fresh := session(1, "m", 1000, 4), session(2, "m", 1000, 4)
	up := 0.0
	known.Uptime_30D, fresh.Probation = &up, true
	newHub(t, conn, "a", known, fresh)
	b := start(t, conn)
	eventually(t, "the sessions are known", func() bool { return b.sessions() == 2 })
	resp, err := b.client.ListOfferings(t.Context(), &routerv1.ListOfferingsRequest{ModelId: "m"})
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(resp.GetOfferings()) != 2 {
		t.Fatalf("len(resp.GetOfferings()): got %d, want 2, in %v", len(resp.GetOfferings()), resp)
	}
	switch o := resp.GetOfferings()[0]; {
	case o.Uptime_30D == nil:
		t.Error("an uptime of nothing is known too: o.Uptime_30D: got nil, want a value")
	case o.GetUptime_30D() != 0:
		t.Errorf("an uptime of nothing is known too: o.GetUptime_30D(): got %v, want 0", o.GetUptime_30D())
	case o.GetProbation():
		t.Errorf("an uptime of nothing is known too: o.GetProbation(): got true, want false, with %v", o)
	}
	if o := resp.GetOfferings()[1]; o.Uptime_30D != nil {
		t.Errorf("o.Uptime_30D: got %v, want nil", o.Uptime_30D)
	} else if !o.GetProbation() {
		t.Errorf("o.GetProbation(): got false, want true, with %v", o)
	}
}

func TestABodyThatNoAgentOnlineTakesIsTooLarge(t *testing.T) {
	conn := bustest.New(t)
	v1 := session(1, "m", 1000, 4)
	v1.MaxRequestBytes = 1<<20 - 1024
	newHub(t, conn, "a", v1)
	b := start(t, conn)
	eventually(t, "the session is known", func() bool { return b.sessions() == 1 })
	_, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m", BodyBytes: 2 << 20,
		PromptTokens: 1 << 20})
	switch f, ok := fault.As(err); {
	case !ok:
		t.Errorf("got the error %v, want a fault", err)
	case f.Reason != fault.RequestTooLarge:
		t.Errorf("f.Reason: got %q, want %q", f.Reason, fault.RequestTooLarge)
	case f.Kind != fault.Exhausted:
		t.Errorf("f.Kind: got %d, want %d", f.Kind, fault.Exhausted)
	}
}

func TestAnIdleNodeIsAskedToWarmUpWhenAnotherIsFull(t *testing.T) {
	conn := bustest.New(t)
	asleep := session(2, "m", 1000, 4)
	asleep.Models[0].Healthy, asleep.TakesWarmups = false, true
	full := session(1, "m", 1000, 1)
	full.Models[0].InFlight = 1
	newHub(t, conn, "a", full, asleep)
	asked := make(chan *eventsv1.WarmUp, 16)
	sub, err := conn.Subscribe(bus.SubjectWarmUp, "", func(_ context.Context, m bus.Message) {
		var w eventsv1.WarmUp
		if proto.Unmarshal(m.Data, &w) == nil {
			asked <- &w
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	b, other := start(t, conn), start(t, conn)
	eventually(t, "the sessions are known", func() bool { return b.sessions() == 2 && other.sessions() == 2 })
	if _, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m"}); !fault.Is(err,
		fault.ProvidersBusy) {
		t.Fatalf("got the error %v, want the reason %v", err, fault.ProvidersBusy)
	}
	select {
	case w := <-asked:
		if want := (&eventsv1.WarmUp{ModelId: "m", ProviderId: id(2), NodeId: "n"}); !proto.Equal(w, want) {
			t.Errorf("asked: got %v, want %v", w, want)
		}
	case <-time.After(limit):
		t.Fatal("nobody was asked")
	}
	if err := conn.Publish(t.Context(), bus.SubjectWarmUp, []byte{0xff}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is malformed is refused", func() bool { return other.service.warmer.Refused() == 1 })
	if n := other.service.warmer.Asked() + b.service.warmer.Asked(); n != 1 {
		t.Errorf("warm-ups asked for: got %d, want 1", n)
	}
}
