package verifier

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// edge is the public API: it checks key and pin, has the provider under test answer, and
// has its hub publish the usage.
func (b *bundle) edge() *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+houseKey || r.Header.Get("X-Svc-Provider") != provider(0).String() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		request, err := ids.NewRequest(time.Now(), rand.Reader)
		if err != nil {
			b.t.Error(err)
			return
		}
		w.Header().Set("X-Svc-Request-Id", request.String())
		w.Header().Set("X-Svc-Provider-Id", provider(0).String())
		engines()[0].ServeHTTP(w, r)
		data, err := proto.Marshal(&eventsv1.UsageEvent{RequestId: request.String(), HubId: "hub-1",
			ProviderId: provider(0).String(), ModelId: model, ClaimState: eventsv1.ClaimState_CLAIM_STATE_VALID,
			ClaimedPromptTokens: 500, ClaimedCompletionTokens: 48})
		if err == nil {
			_, err = b.bus.PublishStream(b.t.Context(), bus.SubjectUsage("hub-1"), request.String(), data, nil)
		}
		if err != nil && b.t.Context().Err() == nil {
			b.t.Error(err)
		}
	}))
	b.t.Cleanup(server.Close)
	return server
}

// plan is a hidden greedy probe that is due now. It waits for a key to send the probe with.
func (b *bundle) plan() probe.Plan {
	b.t.Helper()
	b.wait("a house key", func() bool { return b.service.house.Ready(b.t.Context()) == nil })
	id, err := ids.New[struct{}](time.Now(), rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	o := probe.Offer{Provider: provider(0), Model: model}
	known, _ := b.service.offers.Find(o)
	return probe.Plan{ID: probe.ID(id), Offer: o, Kind: probe.Greedy, Flow: probe.Hidden, Purpose: probe.Evidence,
		Greedy: true, PromptTokens: 300, MaxTokens: 48, BytesPerToken: 1, DueAt: time.Now().Add(-time.Second),
		Stratum: b.service.loops.mover.Stratum(known)}
}

// A short calibration of two references gives thresholds that watch alone. Then a hidden
// probe of an honest provider says something for B and U, exceeds nothing, and is not shown
// to the provider.
func TestAHiddenProbeOfAnHonestProviderExceedsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("calibrates")
	}
	t.Parallel()
	holder := &bundle{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder.front.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b := setup(t, func(c *Config) { c.EdgeURL, c.Challenges = server.URL, 4 })
	holder.front = b.edge()
	ctx := t.Context()
	b.until("the passed benchmark", func(m *eventsv1.Trust) bool { return m.GetLane() == eventsv1.Lane_LANE_MAIN })
	var calibrated *verifierv1.ListCalibrationsResponse
	b.wait("the calibrations", func() bool {
		var err error
		if calibrated, err = b.admin.ListCalibrations(ctx, &verifierv1.ListCalibrationsRequest{}); err != nil {
			t.Fatal(err)
		}
		return len(calibrated.GetList()) >= 3
	})
	for _, c := range calibrated.GetList() {
		if c.GetPenal() {
			t.Errorf("%s of 4 challenges reaches penalties: got true, want false", c.GetFamily())
		}
	}
	p := b.plan()
	if err := b.service.store.Put(ctx, store.QueuedProbe{Plan: p}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	b.wait("the observations", func() bool {
		list, err := b.admin.ListObservations(ctx, &verifierv1.ListObservationsRequest{ProviderId: provider(0).String(),
			ModelId: model})
		if err != nil {
			t.Fatal(err)
		}
		seen = nil
		for _, o := range list.GetList() {
			if o.GetProbeId() == p.ID.String() {
				seen = append(seen, o.GetFamily())
				if o.GetFamily() == "greedy" && o.GetExceeds() {
					t.Error("family greedy of an honest answer exceeds: got true, want false")
				}
			}
		}
		return len(seen) > 0
	})
	if got := strings.Join(seen, " "); !strings.Contains(got, "greedy") {
		t.Errorf("families: got %q, want greedy among them", got)
	}
	hidden, err := b.self.ListChallenges(ctx, &verifierv1.ListChallengesRequest{ProviderId: provider(0).String(),
		Hidden: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(hidden.GetList()); n != 0 {
		t.Errorf("hidden probes of today: got %d, want 0", n)
	}
	visible, err := b.self.ListChallenges(ctx, &verifierv1.ListChallengesRequest{ProviderId: provider(0).String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range visible.GetList() {
		if c.GetFlow() != "visible" {
			t.Errorf("among visible challenges: got %v, want none that is hidden", c)
		}
	}
}

// wait waits until something is so.
func (b *bundle) wait(what string, is func() bool) {
	b.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-deadline.C:
			b.t.Fatalf("%s: it never came", what)
		}
	}
}
