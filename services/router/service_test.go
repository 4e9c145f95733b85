package router

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// limit bounds every wait for something that must happen.
const limit = 90 * time.Second

func id(n int) string { return fmt.Sprintf("0192f0c0-0000-7000-8000-%012x", n) }

// peerServers answers for catalog and provider-hub: model "silent" has a window of
// 2,048, "openai/x" is a gateway model, and provider 99 exists.
type peerServers struct {
	catalogv1.UnimplementedCatalogServiceServer
	hubv1.UnimplementedProviderDirectoryServiceServer
	breaks atomic.Int32 // streams that end at once
}

func (p *peerServers) WatchModels(
	_ *catalogv1.WatchModelsRequest, s grpc.ServerStreamingServer[catalogv1.WatchModelsResponse],
) error {
	if p.breaks.Add(-1) >= 0 {
		return errors.New("broken")
	}
	err := s.Send(&catalogv1.WatchModelsResponse{Revision: 1,
		Models: []*catalogv1.Model{{ModelId: "silent", ContextLength: 2048},
			{ModelId: "openai/x", Kind: catalogv1.Kind_KIND_GATEWAY, ContextLength: 2048}}})
	if err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (p *peerServers) GetProvider(
	_ context.Context, req *hubv1.GetProviderRequest,
) (*hubv1.GetProviderResponse, error) {
	if req.GetProviderId() != id(99) {
		return nil, fault.New(fault.NotFound, fault.ProviderNotFound, "there is no such provider")
	}
	return &hubv1.GetProviderResponse{}, nil
}

// hub plays a provider-hub that answers presence.sync.v1 with its sessions.
type hub struct {
	t    *testing.T
	conn *bus.Conn
	id   string

	mu       sync.Mutex
	revision uint64
	sessions []*eventsv1.Session
}

func newHub(t *testing.T, conn *bus.Conn, name string, sessions ...*eventsv1.Session) *hub {
	t.Helper()
	h := &hub{t: t, conn: conn, id: name, sessions: sessions}
	sub, err := conn.Subscribe(bus.SubjectPresenceSync, "", func(context.Context, bus.Message) { h.report() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	return h
}

// report publishes everything in parts of 500.
func (h *hub) report() {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts := (len(h.sessions) + 499) / 500
	for part := range max(parts, 1) {
		m := &eventsv1.Presence{Full: true, Part: uint32(part), Parts: uint32(max(parts, 1))}
		m.Sessions = h.sessions[min(part*500, len(h.sessions)):min(part*500+500, len(h.sessions))]
		h.publish(m)
	}
}

func (h *hub) publish(m *eventsv1.Presence) {
	h.revision++
	m.HubId, m.Incarnation, m.DispatchAddress, m.Revision = h.id, 1, "inprocess", h.revision
	h.send(bus.SubjectPresence(h.id), m)
}

func (h *hub) send(subject string, m proto.Message) {
	data, err := proto.Marshal(m)
	if err == nil {
		err = h.conn.Publish(context.Background(), subject, data, nil)
	}
	if err != nil {
		h.t.Errorf("publish: %v", err)
	}
}

func session(n int, model string, window int64, capacity int32) *eventsv1.Session {
	return &eventsv1.Session{
		ProviderId: id(n), ProviderName: fmt.Sprint("provider ", n), NodeId: "n", Epoch: int64(n), Active: true,
		ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET, Capabilities: []string{"chat", "stream"},
		Models: []*eventsv1.ModelOffer{{ModelId: model, Healthy: true, ReportedContextLength: window, Capacity: capacity}},
	}
}

type bundle struct {
	service *Service
	client  routerv1.RouterServiceClient
	peers   *peerServers
}

func start(t *testing.T, conn *bus.Conn, change ...func(*Config)) *bundle {
	t.Helper()
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(in)
	b := &bundle{peers: &peerServers{}}
	b.peers.breaks.Store(1)
	catalogv1.RegisterCatalogServiceServer(channel, b.peers)
	hubv1.RegisterProviderDirectoryServiceServer(channel, b.peers)
	cfg := DefaultConfig()
	for _, c := range change {
		c(&cfg)
	}
	b.service, err = New(t.Context(), cfg, Deps{
		Log: slog.New(slog.DiscardHandler), Meters: noop.NewMeterProvider(), Clock: clock.System, Random: rand.Reader,
		Bus: conn, Catalog: catalogv1.NewCatalogServiceClient(channel.Client()),
		Providers: hubv1.NewProviderDirectoryServiceClient(channel.Client()),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.service.Register(channel)
	b.client = routerv1.NewRouterServiceClient(channel.Client())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

// eventually polls what only the service's own progress can make true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(limit)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-timeout:
			t.Fatalf("never came true: %s", what)
		case <-ticker.C:
		}
	}
}

func (b *bundle) sessions() int {
	n, _, _ := b.service.view.Size()
	return n
}

func (b *bundle) ready() bool { return b.service.Ready(context.Background()) == nil }

// How long it takes is BenchmarkStorm's to tell.
func TestAStartedRouterKnowsAllSessionsOnceItHasAsked(t *testing.T) {
	conn := bustest.New(t)
	const each = 2_000
	for i, name := range []string{"a", "b"} {
		sessions := make([]*eventsv1.Session, each)
		for n := range sessions {
			sessions[n] = session(1+i*each+n, "m", 1000, 4)
		}
		newHub(t, conn, name, sessions...)
	}
	b := start(t, conn)
	eventually(t, "all sessions are known", func() bool { return b.sessions() == 2*each })
	eventually(t, "ready", b.ready)
	resp, err := b.client.ListSupply(t.Context(), &routerv1.ListSupplyRequest{})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(resp.GetModels()) != 1:
		t.Errorf("len(resp.GetModels()): got %d, want 1, in %v", len(resp.GetModels()), resp.GetModels())
	case resp.GetModels()[0].GetOnlineProviders() != 2*each:
		t.Errorf("resp.GetModels()[0].GetOnlineProviders(): got %d, want %d", resp.GetModels()[0].GetOnlineProviders(),
			2*each)
	}
}

func TestTheViewIsRebuiltWhenTheBusComesBack(t *testing.T) {
	server := bustest.NewServer(t)
	hubConn, routerConn := bustest.Connect(t, server), bustest.Connect(t, server)
	h := newHub(t, hubConn, "a", session(1, "m", 1000, 4))
	b := start(t, routerConn)
	eventually(t, "the session is known", func() bool { return b.sessions() == 1 })
	eventually(t, "ready", b.ready)
	server.Stop()
	eventually(t, "the bus is gone", func() bool { return !routerConn.Connected() })
	if !b.ready() {
		t.Error("not ready: every replica would be passed over at once")
	}
	if _, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m"}); err != nil {
		t.Errorf("without the bus: %v", err)
	}
	h.mu.Lock()
	h.sessions = []*eventsv1.Session{session(2, "m", 1000, 4), session(3, "m", 1000, 4)}
	h.mu.Unlock()
	again, err := natsserver.Start(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	eventually(t, "the change was learnt of", func() bool { return b.sessions() == 2 })
	eventually(t, "ready again", b.ready)
}

func TestReadyWithoutAnyHubAfterTheSettlingTime(t *testing.T) {
	if start(t, bustest.New(t), func(cfg *Config) { cfg.SettleFor = time.Hour }).ready() {
		t.Error("ready before anything could be heard")
	}
	b := start(t, bustest.New(t))
	eventually(t, "ready", b.ready)
	_, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m"})
	if !fault.Is(err, fault.NoProviderOnline) {
		t.Errorf("got the error %v, want the reason %v", err, fault.NoProviderOnline)
	}
}

func TestSelectNamesWhereToDispatchAndAttemptsFreeTheSlot(t *testing.T) {
	conn := bustest.New(t)
	h := newHub(t, conn, "a", session(1, "m", 1000, 1), session(2, "silent", 0, 4))
	b := start(t, conn)
	eventually(t, "the sessions and the catalog are known", func() bool {
		return b.sessions() == 2 &&
			b.service.catalog.Known()
	})
	resp, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r1", ModelId: "m", PromptTokens: 10,
		RequiredCapabilities: []string{"stream"}})
	if err != nil {
		t.Fatal(err)
	}
	c := resp.GetCandidates()[0]
	if c.GetProviderId() != id(1) || c.GetProviderName() != "provider 1" || c.GetEpoch() != 1 || c.GetHubId() != "a" ||
		c.GetDispatchAddress() != "inprocess" || c.GetContextLength() != 1000 ||
		c.GetContextSource() != routerv1.ContextSource_CONTEXT_SOURCE_REPORTED {
		t.Errorf("candidate %v", c)
	}
	// The only slot is booked: the next waits until the attempt has ended, and
	// asks again should that take longer than a request may wait.
	next := make(chan error, 1)
	go func() {
		for {
			_, err := b.client.Select(context.Background(), &routerv1.SelectRequest{RequestId: "r2", ModelId: "m"})
			if !fault.Is(err, fault.ProvidersBusy) {
				next <- err
				return
			}
		}
	}()
	eventually(t, "the second waits", func() bool { return b.service.waitlist.Waiting() == 1 })
	h.send(bus.SubjectAttempts("a"), &eventsv1.AttemptBatch{HubId: "a", Attempts: []*eventsv1.Attempt{{
		RequestId: "r1", ProviderId: id(1), NodeId: "n", Epoch: 1, ModelId: "m",
		Outcome: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED, FirstContentMs: 250, DurationMs: 1250, CompletionTokens: 100,
	}}})
	if err := <-next; err != nil {
		t.Errorf("the second request: %v", err)
	}
	offers, err := b.client.ListOfferings(t.Context(), &routerv1.ListOfferingsRequest{ModelId: "m"})
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(offers.GetOfferings()) != 1 {
		t.Fatalf("len(offers.GetOfferings()): got %d, want 1, in %v", len(offers.GetOfferings()), offers)
	}
	switch o := offers.GetOfferings()[0]; {
	case o.GetSamples() != 1:
		t.Errorf("offering: o.GetSamples(): got %d, want 1", o.GetSamples())
	case o.GetTtftMsP50() != 250:
		t.Errorf("offering: o.GetTtftMsP50(): got %v, want 250", o.GetTtftMsP50())
	case o.GetTokensPerSecondP50() != 100:
		t.Errorf("offering: o.GetTokensPerSecondP50(): got %v, want 100", o.GetTokensPerSecondP50())
	case o.GetSuccessRate() != 1:
		t.Errorf("offering: o.GetSuccessRate(): got %v, want 1", o.GetSuccessRate())
	}
	silent, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r3", ModelId: "silent"})
	switch {
	case err != nil:
		t.Errorf("silent: got the error %v, want none", err)
	case silent.GetCandidates()[0].GetContextLength() != 2048:
		t.Errorf("silent.GetCandidates()[0].GetContextLength(): got %d, want 2048",
			silent.GetCandidates()[0].GetContextLength())
	case silent.GetCandidates()[0].GetContextSource() != routerv1.ContextSource_CONTEXT_SOURCE_CATALOG:
		t.Errorf("silent.GetCandidates()[0].GetContextSource(): got %v, want %v",
			silent.GetCandidates()[0].GetContextSource(), routerv1.ContextSource_CONTEXT_SOURCE_CATALOG)
	}
}

// Whoever is no vendor could sell any model at a vendor's price.
func TestAGatewayModelIsServedByItsVendorAlone(t *testing.T) {
	conn := bustest.New(t)
	vendor := session(2, "openai/x", 1000, 4)
	vendor.ConnectionMode, vendor.Vendor = eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL, true
	newHub(t, conn, "a", session(1, "openai/x", 1000, 4), vendor)
	b := start(t, conn)
	eventually(t, "the sessions and the catalog are known", func() bool {
		return b.sessions() == 2 && b.service.catalog.Known()
	})
	resp, err := b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "openai/x"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(resp.GetCandidates()); n != 1 {
		t.Fatalf("candidates: got %d, want 1", n)
	}
	if got := resp.GetCandidates()[0].GetProviderId(); got != id(2) {
		t.Errorf("candidate: got %q, want %q", got, id(2))
	}
	_, err = b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "openai/x",
		PinnedProviderId: id(1)})
	if !fault.Is(err, fault.RequestedProviderUnavailable) {
		t.Errorf("a pin to another: got the error %v, want the reason %v", err, fault.RequestedProviderUnavailable)
	}
}

func TestPinsAskTheDirectory(t *testing.T) {
	conn := bustest.New(t)
	newHub(t, conn, "a", session(1, "m", 1000, 4))
	b := start(t, conn)
	eventually(t, "the session is known", func() bool { return b.sessions() == 1 })
	ask := func(pin string, fallbacks bool) (*routerv1.SelectResponse, error) {
		return b.client.Select(t.Context(), &routerv1.SelectRequest{RequestId: "r", ModelId: "m", PinnedProviderId: pin,
			AllowFallbacks: fallbacks})
	}
	if _, err := ask(id(98), true); !fault.Is(err, fault.InvalidProvider) {
		t.Errorf("unknown: got the error %v, want the reason %v", err, fault.InvalidProvider)
	}
	if _, err := ask(id(99), false); !fault.Is(err, fault.RequestedProviderUnavailable) {
		t.Errorf("known and offline: got the error %v, want the reason %v", err, fault.RequestedProviderUnavailable)
	}
	resp, err := ask(id(99), true)
	if err != nil {
		t.Errorf("fallback: got the error %v, want none", err)
	} else if resp.GetFallbackReason() != eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE {
		t.Errorf("resp.GetFallbackReason(): got %v, want %v", resp.GetFallbackReason(),
			eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE)
	}
}

func TestBadRequestsNameTheField(t *testing.T) {
	b := start(t, bustest.New(t))
	for field, req := range map[string]*routerv1.SelectRequest{
		"request_id":            {ModelId: "m"},
		"model_id":              {RequestId: "r"},
		"prompt_tokens":         {RequestId: "r", ModelId: "m", PromptTokens: -1},
		"explicit_max_tokens":   {RequestId: "r", ModelId: "m", ExplicitMaxTokens: 1 << 62},
		"body_bytes":            {RequestId: "r", ModelId: "m", BodyBytes: -1},
		"required_capabilities": {RequestId: "r", ModelId: "m", RequiredCapabilities: make([]string, 17)},
		"exclude_provider_ids":  {RequestId: "r", ModelId: "m", ExcludeProviderIds: make([]string, 9)},
	} {
		_, err := b.client.Select(t.Context(), req)
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", field, err)
		case f.Reason != fault.InvalidValue:
			t.Errorf("%s: f.Reason: got %q, want %q", field, f.Reason, fault.InvalidValue)
		case f.Param != field:
			t.Errorf("%s: f.Param: got %q, want %q", field, f.Param, field)
		}
	}
}

func TestMessagesFromTheWrongPlaceAreRefused(t *testing.T) {
	conn := bustest.New(t)
	b := start(t, conn)
	eventually(t, "it listens", b.ready)
	h := newHub(t, conn, "a")
	h.send(bus.SubjectPresence("b"), &eventsv1.Presence{HubId: "a", Incarnation: 1, DispatchAddress: "x", Revision: 1,
		Sessions: []*eventsv1.Session{session(1, "m", 1, 1)}})
	h.send(bus.SubjectAttempts("a"), &eventsv1.AttemptBatch{Attempts: []*eventsv1.Attempt{{}}})
	if err := conn.Publish(t.Context(), bus.SubjectPresence("a"), []byte{0xff}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three are refused", func() bool { return b.service.listener.Refused() == 3 })
	if b.sessions() != 0 {
		t.Error("a session was believed")
	}
}
