package verifier

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// A new offer is shut until its first benchmark passes. Then the hub hears of it and routers
// have it in the main lane.
func TestANewOfferIsBenchmarkedAndThenRouted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.until("the shut offer", func(m *eventsv1.Trust) bool { return m.GetLane() == eventsv1.Lane_LANE_SHUT })
	b.until("the passed benchmark", func(m *eventsv1.Trust) bool { return m.GetLane() == eventsv1.Lane_LANE_MAIN })
	select {
	case got := <-b.peers.reported:
		if !got.GetPassed() {
			t.Errorf("reported: got %v, want a passed benchmark", got)
		}
		if got.GetProviderId() != provider(0).String() {
			t.Errorf("reported of: got %s, want %s", got.GetProviderId(), provider(0))
		}
	case <-time.After(patience):
		t.Fatal("the hub heard of no benchmark")
	}
	b.shows()
}

// shows checks what provider and operators are shown after the first benchmark.
func (b *bundle) shows() {
	t, ctx := b.t, b.t.Context()
	own, err := b.self.ListBenchmarks(ctx, &verifierv1.ListBenchmarksRequest{ProviderId: provider(0).String()})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(own.GetList()); n != 1 {
		t.Fatalf("benchmarks: got %d, want 1", n)
	}
	if got := own.GetList()[0].GetResult(); got != "pass" {
		t.Errorf("result: got %q, want %q", got, "pass")
	}
	standing, err := b.self.GetStanding(ctx, &verifierv1.GetStandingRequest{ProviderId: provider(0).String()})
	if err != nil {
		t.Fatal(err)
	}
	if got := standing.GetList()[0].GetLane(); got != "main" {
		t.Errorf("lane: got %q, want %q", got, "main")
	}
	if got := standing.GetList()[0].GetBenchmark(); got != "proven" {
		t.Errorf("benchmark: got %q, want %q", got, "proven")
	}
	other, err := b.self.ListBenchmarks(ctx, &verifierv1.ListBenchmarksRequest{ProviderId: provider(9).String()})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(other.GetList()); n != 0 {
		t.Errorf("another tenant's benchmarks: got %d, want 0", n)
	}
	visible, err := b.self.ListChallenges(ctx, &verifierv1.ListChallengesRequest{ProviderId: provider(0).String()})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(visible.GetList()); n == 0 {
		t.Error("visible challenges: got none, want those of the benchmark")
	}
	offering, err := b.admin.GetOffering(ctx, &verifierv1.GetOfferingRequest{ProviderId: provider(0).String(),
		ModelId: model})
	if err != nil {
		t.Fatal(err)
	}
	if got := offering.GetOffering().GetLevel(); got != "normal" {
		t.Errorf("level: got %q, want %q", got, "normal")
	}
	// A hub reports again and again, and what it reported once is forgotten on a slow machine.
	b.wait("the two references", func() bool {
		b.present(ctx)
		refs, err := b.admin.ListReferences(ctx, &verifierv1.ListReferencesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return len(refs.GetList()) == 2
	})
	verdicts, err := b.admin.ListVerdicts(ctx, &verifierv1.ListVerdictsRequest{ProviderId: provider(0).String()})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(verdicts.GetList()); n != 1 {
		t.Fatalf("verdicts: got %d, want 1", n)
	}
	b.replays(verdicts.GetList()[0].GetVerdictId())
}

func TestWhatCannotBeDecidedIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Probes = false })
	ctx := t.Context()
	of := provider(7).String()
	for what, c := range map[string]struct {
		call   func() error
		reason fault.Reason
	}{
		"penalties on": {func() error {
			_, err := b.admin.SetPenalties(ctx, &verifierv1.SetPenaltiesRequest{On: true, Reason: "now"})
			return err
		}, "not_calibrated"},
		"a reason that is empty": {func() error {
			_, err := b.admin.SetPenalties(ctx, &verifierv1.SetPenaltiesRequest{})
			return err
		}, fault.InvalidValue},
		"an unknown offer": {func() error {
			_, err := b.admin.GetOffering(ctx, &verifierv1.GetOfferingRequest{ProviderId: of, ModelId: model})
			return err
		}, "offering_not_found"},
		"a benchmark of nothing": {func() error {
			_, err := b.self.AskBenchmark(ctx, &verifierv1.AskBenchmarkRequest{ProviderId: of, ModelId: model})
			return err
		}, "offering_not_found"},
		"an unknown verdict": {func() error {
			_, err := b.admin.GetEvidence(ctx, &verifierv1.GetEvidenceRequest{VerdictId: of})
			return err
		}, "verdict_not_found"},
		"an unknown penalty": {func() error {
			_, err := b.self.GetPenaltyEvidence(ctx, &verifierv1.GetPenaltyEvidenceRequest{PenaltyId: of, ProviderId: of})
			return err
		}, "penalty_not_found"},
		"a calibration without a reference": {func() error {
			_, err := b.admin.StartCalibration(ctx, &verifierv1.StartCalibrationRequest{ModelId: "acme/none"})
			return err
		}, "no_reference"},
		"an effect": {func() error {
			_, err := b.admin.RetryEffect(ctx, &verifierv1.RetryEffectRequest{EffectId: "7"})
			return err
		}, "effect_not_found"},
		"a page too long": {func() error {
			_, err := b.admin.ListVerdicts(ctx, &verifierv1.ListVerdictsRequest{PageSize: 201})
			return err
		}, fault.InvalidValue},
		"a cursor": {func() error {
			_, err := b.self.ListChallenges(ctx, &verifierv1.ListChallengesRequest{ProviderId: of, Cursor: "?"})
			return err
		}, fault.InvalidValue},
	} {
		if err := c.call(); !fault.Is(err, c.reason) {
			t.Errorf("%s: got the error %v, want the reason %v", what, err, c.reason)
		}
	}
	p, err := b.admin.GetPenalties(ctx, &verifierv1.GetPenaltiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if p.GetPenalties().GetOn() {
		t.Error("penalties at the beginning: got them on, want them off")
	}
}
