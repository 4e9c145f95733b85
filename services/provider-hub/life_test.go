package providerhub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/serve"
	agentv2 "svc.internal/proto/svc/agent/v2"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// self is what gateways ask the hub for in a provider's name.
func (w *world) self() hubv1.ProviderSelfServiceClient {
	w.t.Helper()
	interceptors, err := serve.NewInterceptors(w.log, noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	must(w.t, err)
	channel := serve.NewInProcess(interceptors)
	w.hub.service.Register(channel)
	return hubv1.NewProviderSelfServiceClient(channel.Client())
}

func yes() *bool { v := true; return &v }

// TestAProvidersWholeWay goes from the sign-up to earning, by what a provider,
// an operator and the verifier do, and with an agent that knows nothing of it.
func TestAProvidersWholeWay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	self := w.self()
	signed, err := self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Farm", Region: "eu"})
	must(t, err)
	m := member{id: signed.GetProvider().GetProviderId(), key: signed.GetApiKey()}
	digest := apikey.Sum(m.key)
	own := func() *hubv1.GetOwnStatusResponse {
		got, err := self.GetOwnStatus(t.Context(), &hubv1.GetOwnStatusRequest{KeyDigest: digest[:]})
		must(t, err)
		return got
	}
	switch got := own(); {
	case got.GetShownStatus() != "pending":
		t.Errorf(`signed up: got.GetShownStatus(): got %q, want "pending"`, got.GetShownStatus())
	case got.GetStep() != 2:
		t.Errorf("signed up: got.GetStep(): got %d, want 2", got.GetStep())
	case !got.GetCanConnect():
		t.Errorf("signed up: got.GetCanConnect(): got false, want true, with %v", got)
	}
	_, err = w.hub.admin.ConfirmQualification(t.Context(), &hubv1.ConfirmQualificationRequest{ProviderId: m.id,
		Collateral: yes()})
	must(t, err)
	w.benchmark(m.id)
	agent := fakeagent.StartV1(fakeagent.V1Options{
		URL: strings.TrimSuffix(w.wsURL(), "/ws"), Key: m.key, Models: []string{testModel},
		Hardware: fakeagent.V1TwoRTX4090(),
		Handler:  fakeagent.V1Answer("Hello"),
	})
	t.Cleanup(agent.Stop)
	// The machine is what was missing: nobody waits for a sweep.
	w.eventually("the provider is active", func() error {
		if got := own(); got.GetShownStatus() != "active" || got.GetLabel() != "Active (Probation)" {
			return fmt.Errorf("%s, %s", got.GetShownStatus(), got.GetLabel())
		}
		return nil
	})
	got := own()
	if nodes := got.GetNodes(); len(nodes) != 1 || nodes[0].GetDialect() != "v1" || nodes[0].GetGpuCount() != 2 ||
		nodes[0].GetVramGb() != 23 ||
		nodes[0].GetComputeCapability() != "8.9" || !nodes[0].GetGpuEligible() || !nodes[0].GetOnline() {
		t.Errorf("nodes %v", nodes)
	}
	switch {
	case got.GetStep() != 5:
		t.Errorf("active: got.GetStep(): got %d, want 5", got.GetStep())
	case got.GetProvider().GetProbationEndsAt() == nil:
		t.Error("active: got.GetProvider().GetProbationEndsAt(): got nil, want a value")
	case !got.GetProvider().GetOnline():
		t.Error("active: got.GetProvider().GetOnline(): got false, want true")
	}
	agent.Stop()
	w.eventually("it is shown as offline", func() error {
		if got := own(); got.GetShownStatus() != "offline" ||
			got.GetProvider().GetStatus() != hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

func TestAWarmUpReachesTheAgentsOfAModelAndItsFailureTheirOwner(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Capabilities: []string{"chat", "stream", "warmup"}})
	digest := apikey.Sum(m.key)
	ask := func() {
		t.Helper()
		_, err := w.hub.admin.WarmUp(t.Context(), &hubv1.WarmUpRequest{ModelId: testModel, ProviderId: m.id})
		must(t, err)
	}
	asked := func() int {
		n := 0
		for _, f := range a.Frames() {
			if f.GetWarmup().GetModelId() == testModel {
				n++
			}
		}
		return n
	}
	w.eventually("the hub listens and the agent is asked", func() error {
		ask()
		if asked() == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	for range 5 {
		ask()
	}
	must(t, a.Send(&agentv2.Frame{Body: &agentv2.Frame_WarmupResult{WarmupResult: &agentv2.WarmupResult{ModelId: testModel,
		Error: "out of memory"}}}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	self := w.self()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		got, err := self.GetOwnStatus(ctx, &hubv1.GetOwnStatusRequest{KeyDigest: digest[:]})
		must(t, err)
		if strings.Contains(got.GetWarning(), "out of memory") {
			break
		}
		<-every.C
	}
	if n := asked(); n != 1 {
		t.Errorf("asked within five minutes: got %d times, want 1", n)
	}
}
