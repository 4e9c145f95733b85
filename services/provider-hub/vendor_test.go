package providerhub_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	agentv2 "svc.internal/proto/svc/agent/v2"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	providerhub "svc.internal/services/provider-hub"
)

// gatewayModel is a gateway model of the shelf, and testModel an open one.
const gatewayModel = "openai/big"

// shelf is a catalog that tells its watchers of each change.
type shelf struct {
	catalogv1.UnimplementedCatalogServiceServer
	mu      sync.Mutex
	models  map[string]catalogv1.Kind
	changed chan struct{} // closed and replaced by put
}

func newShelf() *shelf {
	return &shelf{changed: make(chan struct{}), models: map[string]catalogv1.Kind{
		gatewayModel: catalogv1.Kind_KIND_GATEWAY, testModel: catalogv1.Kind_KIND_OPEN}}
}

func (s *shelf) put(model string, kind catalogv1.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[model] = kind
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) now() (list []*catalogv1.Model, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, kind := range s.models {
		list = append(list, &catalogv1.Model{ModelId: id, Kind: kind})
	}
	return list, s.changed
}

func (s *shelf) WatchModels(
	_ *catalogv1.WatchModelsRequest, to grpc.ServerStreamingServer[catalogv1.WatchModelsResponse],
) error {
	for {
		list, changed := s.now()
		if err := to.Send(&catalogv1.WatchModelsResponse{Revision: 1, Models: list}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-to.Context().Done():
			return nil
		}
	}
}

// market is a hub with a catalog.
type market struct {
	*world
	shelf     *shelf
	vendors   hubv1.VendorAdminServiceClient
	endpoints hubv1.ExternalEndpointServiceClient
}

func setupMarket(t testing.TB, change ...func(*providerhub.Config)) *market {
	t.Helper()
	m := &market{shelf: newShelf()}
	m.world = prepared(t, change...)
	interceptors, err := serve.NewInterceptors(m.log, noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	must(t, err)
	channel := serve.NewInProcess(interceptors)
	catalogv1.RegisterCatalogServiceServer(channel, m.shelf)
	m.catalog = catalogv1.NewCatalogServiceClient(channel.Client())
	m.start()
	m.vendors = hubv1.NewVendorAdminServiceClient(m.channel(m.hub))
	m.endpoints = hubv1.NewExternalEndpointServiceClient(m.channel(m.hub))
	return m
}

// calling lets a hub call the servers of tests, and makes it probe them often.
func calling(v *vendor) func(*providerhub.Config) {
	return func(c *providerhub.Config) {
		c.DevelopmentEndpoints, c.EndpointAuthorities = true, v.pool()
		c.EndpointProbeInterval = 20 * time.Millisecond
	}
}

// register registers a vendor. The hub may not have heard the catalog yet.
func (m *market) register(request *hubv1.CreateVendorRequest) *hubv1.Vendor {
	m.t.Helper()
	var made *hubv1.CreateVendorResponse
	m.eventually("the catalog is heard", func() (err error) {
		made, err = m.vendors.CreateVendor(m.t.Context(), request)
		if err != nil && !fault.Is(err, fault.ServiceUnavailable) {
			m.t.Fatal(err)
		}
		return err
	})
	return made.GetVendor()
}

func (v *vendor) request() *hubv1.CreateVendorRequest {
	return &hubv1.CreateVendorRequest{Name: "Big Co", BaseUrl: v.URL + "/v1", ApiKey: endpointKey,
		IdempotencyKey: "once", Models: []*hubv1.ExternalModel{{ModelId: gatewayModel, LocalModel: "tiny-local"}}}
}

// wordsOf returns the message of an error; empty for none.
func wordsOf(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Message
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestAVendorIsActiveAtOnceAndServesItsGatewayModel(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	m := setupMarket(t, calling(v))
	heard, usage := m.presences(), m.listen()
	made := m.register(v.request())
	if made.GetState() != "active" {
		t.Errorf("state: got %q, want active", made.GetState())
	}
	again, err := m.vendors.CreateVendor(t.Context(), v.request())
	if err != nil {
		t.Fatalf("registered again with its key: got the error %v, want none", err)
	}
	if got := again.GetVendor().GetProviderId(); got != made.GetProviderId() {
		t.Errorf("registered again with its key: got the vendor %s, want %s", got, made.GetProviderId())
	}
	var session *eventsv1.Session
	told(t, "the vendor is up", heard, member{id: made.GetProviderId()}, func(s *eventsv1.Session) bool {
		session = s
		return healthy(s)
	})
	if !session.GetVendor() {
		t.Error("presence: vendor: got false, want true")
	}
	if got := session.GetConnectionMode(); got != eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL {
		t.Errorf("presence: mode: got %v, want external", got)
	}
	if session.GetProbation() {
		t.Error("presence: a vendor is in probation")
	}
	f := &farm{world: m.world, member: member{id: made.GetProviderId()}}
	open := f.ask(session, true)
	open.ModelId, open.ModelLength = gatewayModel, uint32(len(gatewayModel)+2)
	open.Body = []byte(strings.Replace(string(open.GetBody()), testModel, gatewayModel, 1))
	if r := m.call(open).rest(); r.failed != nil {
		t.Fatalf("got the failure %v, want none", r.failed)
	}
	if got := usage.next(1); !got.GetVendor() {
		t.Error("usage: vendor: got false, want true")
	}
}

func TestNobodyButAVendorListsAGatewayModel(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	m := setupMarket(t, calling(v))
	m.register(v.request()) // succeeds once the hub has heard the catalog
	provider := m.active()
	_, err := m.endpoints.CreateExternalEndpoint(t.Context(), &hubv1.CreateExternalEndpointRequest{
		ProviderId: provider.id, Name: "Rack", BaseUrl: v.URL + "/v1", ApiKey: endpointKey, Models: v.request().GetModels()})
	if got := wordsOf(err); !strings.Contains(got, "vendor alone") {
		t.Errorf("an endpoint: got the error %q, want the reason", got)
	}
	heard := m.presences()
	agent := m.dial(provider, fakeagent.Options{Models: []string{gatewayModel, testModel}})
	if got := agent.Ack().GetRefusedModels(); !strings.Contains(got[gatewayModel], "vendor alone") {
		t.Errorf("an agent: refused: got %v, want %s with its reason", got, gatewayModel)
	} else if len(got) != 1 {
		t.Errorf("an agent: refused: got %v, want one model", got)
	}
	told(t, "the agent is there", heard, provider, func(s *eventsv1.Session) bool {
		if len(s.GetModels()) == 1 && s.GetModels()[0].GetModelId() == testModel {
			return true
		}
		t.Fatalf("an agent: offers: got %v, want %s alone", s.GetModels(), testModel)
		return false
	})
	must(t, agent.Heartbeat(t.Context(), &agentv2.ModelOffer{ModelId: gatewayModel, Healthy: true},
		&agentv2.ModelOffer{ModelId: testModel, Healthy: true}))
	order := order(provider, agent, false)
	order.ModelId, order.ModelLength = gatewayModel, uint32(len(gatewayModel)+2)
	order.Body = []byte(strings.Replace(string(order.GetBody()), testModel, gatewayModel, 1))
	if r := m.call(order); r.err() == nil {
		t.Error("a gateway model that a heartbeat named: got no error of a dispatch, want one")
	}
}

func TestAModelThatBecomesAGatewayModelLeavesItsAgents(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	m := setupMarket(t, calling(v))
	m.register(v.request())
	heard := m.presences()
	provider := m.active()
	agent := m.dial(provider, fakeagent.Options{Models: []string{testModel}})
	told(t, "the agent offers it", heard, provider, func(s *eventsv1.Session) bool { return len(s.GetModels()) == 1 })
	m.shelf.put(testModel, catalogv1.Kind_KIND_GATEWAY)
	m.eventually("the hub has heard of the change", func() error {
		must(t, agent.Heartbeat(t.Context()))
		_, err := m.vendors.CreateVendor(t.Context(), &hubv1.CreateVendorRequest{Name: "Small Co", BaseUrl: v.URL + "/v1",
			IdempotencyKey: "small", Models: []*hubv1.ExternalModel{{ModelId: testModel}}})
		return err
	})
	must(t, agent.Heartbeat(t.Context()))
	told(t, "the agent offers it no longer", heard, provider, func(s *eventsv1.Session) bool {
		return len(s.GetModels()) == 0
	})
}

func TestAVendorServesNothingButGatewayModels(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	m := setupMarket(t, calling(v))
	made := m.register(v.request())
	for model, why := range map[string]string{testModel: "open model", "nobodys/model": "no such model"} {
		request := v.request()
		request.Name, request.IdempotencyKey, request.Models[0].ModelId = "Other", "other", model
		_, err := m.vendors.CreateVendor(t.Context(), request)
		if !strings.Contains(wordsOf(err), why) {
			t.Errorf("%s: got the error %v, want one with %q", model, err, why)
		}
		_, err = m.vendors.UpdateVendor(t.Context(), &hubv1.UpdateVendorRequest{ProviderId: made.GetProviderId(),
			Models: request.GetModels()})
		if !strings.Contains(wordsOf(err), why) {
			t.Errorf("changed to %s: got the error %v, want one with %q", model, err, why)
		}
	}
	list, err := m.vendors.ListVendors(t.Context(), &hubv1.ListVendorsRequest{})
	must(t, err)
	if list.GetTotal() != 1 {
		t.Errorf("vendors: got %d, want 1", list.GetTotal())
	}
}

func TestASuspendedVendorServesNothingUntilItIsActiveAgain(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	m := setupMarket(t, calling(v))
	heard := m.presences()
	made := m.register(v.request())
	who := member{id: made.GetProviderId()}
	told(t, "the vendor is up", heard, who, healthy)
	set := func(state string) *hubv1.Vendor {
		got, err := m.vendors.UpdateVendor(t.Context(), &hubv1.UpdateVendorRequest{ProviderId: who.id, State: &state,
			Reason: "invoice in dispute"})
		must(t, err)
		return got.GetVendor()
	}
	for range 2 {
		if got := set("suspended").GetState(); got != "suspended" {
			t.Errorf("state: got %q, want suspended", got)
		}
	}
	m.eventually("the session has ended", func() error {
		got, err := m.hub.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: who.id})
		must(t, err)
		if got.GetProvider().GetOnline() {
			return io.ErrNoProgress
		}
		return nil
	})
	for len(heard) > 0 {
		<-heard
	}
	for range 2 {
		if got := set("active").GetState(); got != "active" {
			t.Errorf("state: got %q, want active", got)
		}
	}
	told(t, "the vendor is up again", heard, who, healthy)
}

func TestAVendorIsRenamedAndMovedWithItsKey(t *testing.T) {
	t.Parallel()
	v, other := newVendor(t), newVendor(t)
	other.models = v.models
	pool := v.pool()
	pool.AddCert(other.Certificate())
	m := setupMarket(t, calling(v), func(c *providerhub.Config) { c.EndpointAuthorities = pool })
	heard := m.presences()
	made := m.register(v.request())
	told(t, "the vendor is up", heard, member{id: made.GetProviderId()}, healthy)
	base, name, secret := other.URL+"/v1", "Bigger Co", endpointKey
	_, err := m.vendors.UpdateVendor(t.Context(), &hubv1.UpdateVendorRequest{ProviderId: made.GetProviderId(),
		BaseUrl: &base})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("moved without its key: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	got, err := m.vendors.UpdateVendor(t.Context(), &hubv1.UpdateVendorRequest{ProviderId: made.GetProviderId(),
		Name: &name, BaseUrl: &base, ApiKey: &secret})
	must(t, err)
	if e := got.GetVendor().GetEndpoint(); e.GetBaseUrl() != base {
		t.Errorf("base URL: got %q, want %q", e.GetBaseUrl(), base)
	}
	if strings.Contains(got.String(), endpointKey) {
		t.Error("the key of a vendor is shown")
	}
	told(t, "it has its new name", heard, member{id: made.GetProviderId()}, func(s *eventsv1.Session) bool {
		return s.GetProviderName() == name && healthy(s)
	})
	second := v.request()
	second.Name, second.IdempotencyKey = name, "second"
	if _, err := m.vendors.CreateVendor(t.Context(), second); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("another vendor of its name: got the error %v, want the reason %v", err, fault.AlreadyExists)
	}
	second.Name, second.IdempotencyKey = "Third", "once"
	if _, err := m.vendors.CreateVendor(t.Context(), second); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another vendor with its key: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
}

func TestAVendorHasNoKey(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	m := setupMarket(t, calling(v))
	made := m.register(v.request())
	_, err := m.hub.admin.IssueProviderKey(t.Context(), &hubv1.IssueProviderKeyRequest{ProviderId: made.GetProviderId(),
		Name: "k"})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	_, err = m.db.Exec(t.Context(), `INSERT INTO provider_key (key_id, provider_id, name, key_hash, key_prefix)
		VALUES (gen_random_uuid(), $1, '', sha256('x'), 'svc_prov_abc')`, made.GetProviderId())
	if !strings.Contains(wordsOf(err), "a vendor has no key") {
		t.Errorf("in the database: got the error %v, want that a vendor has no key", err)
	}
	if _, err := m.db.Exec(t.Context(), `UPDATE provider SET vendor = true`); err == nil {
		t.Error("a provider became a vendor")
	}
}

// While the catalog is away, the hub does not know which models a vendor may serve.
func TestAVendorIsRegisteredOnceTheCatalogIsHeard(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	w := setup(t, calling(v))
	vendors := hubv1.NewVendorAdminServiceClient(w.channel(w.hub))
	if _, err := vendors.CreateVendor(t.Context(), v.request()); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}
