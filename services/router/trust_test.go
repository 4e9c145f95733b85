package router

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// reported publishes what the verifier says of one provider, into the stream.
func reported(t *testing.T, conn *bus.Conn, revision int64, models ...*eventsv1.Trust) {
	t.Helper()
	m := &eventsv1.TrustReport{ProviderId: models[0].GetProviderId(), Revision: revision, Models: models}
	for _, model := range models {
		model.Revision = revision
	}
	if err := conn.EnsureStream(t.Context(), bus.TrustStream); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(m)
	if err == nil {
		_, err = conn.PublishStream(t.Context(), bus.SubjectTrust(m.GetProviderId()),
			fmt.Sprintf("%s.%d", m.GetProviderId(), revision), data, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func opinionOf(n int, lane eventsv1.Lane, window int64) *eventsv1.Trust {
	return &eventsv1.Trust{ProviderId: id(n), ModelId: "m", Trust: 0.97, Lane: lane, MeasuredContextLength: window}
}

func TestARouterThatStartsWithoutAVerifierHasCapsAndLanes(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	reported(t, conn, 1, opinionOf(1, eventsv1.Lane_LANE_MAIN, 300))
	reported(t, conn, 1, opinionOf(2, eventsv1.Lane_LANE_SHUT, 0))
	reference := session(3, "m", 9000, 4)
	reference.Reference = true
	newHub(t, conn, "a", session(1, "m", 1000, 4), session(2, "m", 1000, 4), reference)
	b := start(t, conn)
	eventually(t, "ready", b.ready)
	eventually(t, "the sessions are known", func() bool { return b.sessions() == 3 })
	eventually(t, "what was said is known", func() bool { return b.service.trust.Shut(id(2), "m") })
	resp, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m", PromptTokens: 300})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(resp.GetCandidates()); got != 1 {
		t.Fatalf("candidates: got %d, want 1", got)
	}
	c := resp.GetCandidates()[0]
	if c.GetProviderId() != id(1) {
		t.Errorf("candidate: got %q, want %q", c.GetProviderId(), id(1))
	}
	if c.GetContextLength() != 300 {
		t.Errorf("window: got %d, want 300", c.GetContextLength())
	}
	if got, want := c.GetContextSource(), routerv1.ContextSource_CONTEXT_SOURCE_MEASURED; got != want {
		t.Errorf("source: got %v, want %v", got, want)
	}
	_, err = b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m", PromptTokens: 301})
	if !fault.Is(err, fault.ContextLengthExceeded) {
		t.Errorf("above the cap: got the error %v, want the reason %v", err, fault.ContextLengthExceeded)
	}
	for _, n := range []int{2, 3} {
		_, err = b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m",
			PinnedProviderId: id(n)})
		if !fault.Is(err, fault.RequestedProviderUnavailable) {
			t.Errorf("a pin to provider %d: got the error %v, want the reason %v", n, err, fault.RequestedProviderUnavailable)
		}
	}
}

func TestSupplyAndOfferingsAreOfMeasuredWindowsAndOfWhoMayServe(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	reported(t, conn, 1, opinionOf(1, eventsv1.Lane_LANE_MAIN, 300))
	reported(t, conn, 1, opinionOf(2, eventsv1.Lane_LANE_SHUT, 0))
	reference := session(3, "m", 100, 4)
	reference.Reference = true
	newHub(t, conn, "a", session(1, "m", 1000, 4), session(2, "m", 50, 4), reference, session(4, "m", 2000, 4))
	b := start(t, conn)
	eventually(t, "the sessions are known", func() bool { return b.sessions() == 4 })
	eventually(t, "what was said is known", func() bool { return b.service.trust.Shut(id(2), "m") })
	eventually(t, "ready", b.ready)
	supply, err := b.client.ListSupply(t.Context(), &routerv1.ListSupplyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &routerv1.ModelSupply{ModelId: "m", OnlineProviders: 2, ReportingProviders: 2, MinReportedContextLength: 300,
		MaxReportedContextLength: 2000}
	if all := (&routerv1.ListSupplyResponse{Models: []*routerv1.ModelSupply{want}}); !proto.Equal(supply, all) {
		t.Errorf("supply: got %v, want %v", supply, all)
	}
	offers, err := b.client.ListOfferings(t.Context(), &routerv1.ListOfferingsRequest{ModelId: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(offers.GetOfferings()); got != 2 {
		t.Fatalf("offerings: got %d, want 2", got)
	}
	known, unknown := offers.GetOfferings()[0], offers.GetOfferings()[1]
	if got := known.GetContextLength(); got != 300 {
		t.Errorf("window: got %d, want 300", got)
	}
	if got, want := known.GetContextSource(), routerv1.ContextSource_CONTEXT_SOURCE_MEASURED; got != want {
		t.Errorf("source: got %v, want %v", got, want)
	}
	if got := known.GetReportedContextLength(); got != 1000 {
		t.Errorf("what it reports: got %d, want 1000", got)
	}
	if got := known.GetTrust(); got != 0.97 {
		t.Errorf("trust: got %v, want 0.97", got)
	}
	if unknown.Trust != nil {
		t.Errorf("trust of an unknown pair: got %v, want none", unknown.GetTrust())
	}
	if got, want := unknown.GetContextSource(), routerv1.ContextSource_CONTEXT_SOURCE_REPORTED; got != want {
		t.Errorf("source of an unknown pair: got %v, want %v", got, want)
	}
}

func TestAProviderIsToldItsLaneAndItsMeasuredWindow(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	newHub(t, conn, "a", session(1, "m", 1000, 4))
	b := start(t, conn)
	eventually(t, "the session is known", func() bool { return b.sessions() == 1 })
	reported(t, conn, 1, opinionOf(1, eventsv1.Lane_LANE_SHUT, 300))
	eventually(t, "the model is shut", func() bool { return b.service.trust.Shut(id(1), "m") })
	rejects, models := explained(t, b, id(1))
	if want := map[string]int64{"not_verified": 0}; !maps.Equal(rejects, want) {
		t.Errorf("rejects before any request: got %v, want %v", rejects, want)
	}
	want := &routerv1.ModelHealth{ModelId: "m", Nodes: 1, Capacity: 4, Breaker: "closed", Lane: "shut",
		MeasuredContextLength: 300, ContextLength: 300, ReportedContextLength: 1000, Trust: "normal"}
	if !slices.EqualFunc(models, []*routerv1.ModelHealth{want}, func(a, b *routerv1.ModelHealth) bool {
		return proto.Equal(a, b)
	}) {
		t.Errorf("models: got %v, want %v", models, want)
	}
	if _, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m"}); !fault.Is(err,
		fault.NoProviderOnline) {
		t.Errorf("got the error %v, want the reason %v", err, fault.NoProviderOnline)
	}
	if rejects, _ := explained(t, b, id(1)); rejects["not_verified"] != 1 {
		t.Errorf("not_verified after a request: got %d, want 1", rejects["not_verified"])
	}
	reported(t, conn, 2, opinionOf(1, eventsv1.Lane_LANE_MAIN, 0))
	eventually(t, "the model is open", func() bool { return !b.service.trust.Shut(id(1), "m") })
	if _, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m",
		PromptTokens: 1000}); err != nil {
		t.Errorf("once it is open, without a cap: got the error %v, want none", err)
	}
}

// The server has no room for the stream.
func TestARouterStartsAndServesWithoutTheStream(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), MaxStore: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn := bustest.Connect(t, server)
	newHub(t, conn, "a", session(1, "m", 1000, 4))
	b := start(t, conn)
	eventually(t, "ready", b.ready)
	eventually(t, "the session is known", func() bool { return b.sessions() == 1 })
	if _, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m"}); err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}

func TestWhatIsSaidWhileTheBusWasAwayIsReadWhenItIsBack(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	conn := bustest.Connect(t, server)
	newHub(t, bustest.Connect(t, server), "a", session(1, "m", 1000, 4))
	b := start(t, conn)
	eventually(t, "the session is known", func() bool { return b.sessions() == 1 })
	select {
	case <-b.service.reports.Read():
	case <-time.After(limit):
		t.Fatal("never read: what was said before")
	}
	server.Stop()
	eventually(t, "the bus is away", func() bool { return !conn.Connected() })
	// Another server has the same streams before the router finds it.
	elsewhere := server.Config()
	elsewhere.Port = 0
	meanwhile, err := natsserver.Start(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	reported(t, bustest.Connect(t, meanwhile), 1, opinionOf(1, eventsv1.Lane_LANE_SHUT, 0))
	meanwhile.Stop()
	again := startAgain(t, server)
	t.Cleanup(again.Stop)
	eventually(t, "the verdict is known", func() bool { return b.service.trust.Shut(id(1), "m") })
}

// startAgain starts a server again at its address, which the router still dials. Another
// socket may have the port for a moment.
func startAgain(t *testing.T, server *natsserver.Server) *natsserver.Server {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		again, err := natsserver.Start(server.Config())
		if err == nil {
			return again
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}
