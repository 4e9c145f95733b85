package edgegateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/operator"
)

const (
	operatorName = "alice"
	adminToken   = "an-operators-token-of-more-than-32-bytes"
	modelID      = "acme/tiny-1b"
	modelSlug    = "tiny"
	providerA    = "01890000-0000-7000-8000-00000000000a"
	providerB    = "01890000-0000-7000-8000-00000000000b"
	providerC    = "01890000-0000-7000-8000-00000000000c"
)

// fleet is a gateway among peers that do as a test says.
type fleet struct {
	clock         *stillClock
	t             testing.TB
	cfg           Config
	key           string
	log           *logBuffer
	svc           *Service
	base          string          // of the public listener
	operators     string          // the base of the operators' listener
	dialOperators func() net.Conn // in a bubble
	client        *http.Client
	keys          *keys
	billing       *billing
	router        *router
	catalog       *catalogPeer
	hub           *hub
	market        *market
	ownKeys       *ownKeys
	claims        *claims
	visits        *visits
	cards         *cards
	shop          *shop
	selves        *selves
	people        *people
	staff         *staff
	pieces        chan struct{} // of an endless export
	penalties     *penalties
	earned        *earned
	collateral    *keptCollateral
	verification  *verification
	named         *named // the connection to all peers
	// providerKey is the key that selves knows.
	providerKey string
}

// machine is the entry of a machine's token in the gateway's settings.
func machine(name string, role operator.Role, token string) string {
	return fmt.Sprintf("%s:%s:%x", name, role, sha256.Sum256([]byte(token)))
}

// logBuffer is a log that a test reads while the gateway writes it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newFleet makes the peers and the gateway in one process, without running or
// serving it.
func newFleet(t testing.TB, change ...func(*Config)) *fleet {
	t.Helper()
	return connectFleet(t, inProcess, change...)
}

// connector registers the peers and gives the way to them.
type connector func(t testing.TB, in serve.Interceptors, register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface

func inProcess(_ testing.TB, in serve.Interceptors, register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
	local := serve.NewInProcess(in)
	register(local)
	return local.Client()
}

func overSockets(t testing.TB, in serve.Interceptors, register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.GRPC(ctx, lis, serve.GRPCConfig{Interceptors: in}, register) }()
	conn, err := serve.Dial(serve.Target{Service: "peer", Addresses: []string{lis.Addr().String()}, Exactly: true}, in,
		nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func connectFleet(t testing.TB, connect connector, change ...func(*Config)) *fleet {
	t.Helper()
	key, err := apikey.Generate(apikey.Consumer, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		t: t, cfg: DefaultConfig(), key: key, log: &logBuffer{}, clock: &stillClock{},
		keys: &keys{digest: apikey.Sum(key)},
		billing: &billing{reports: make(chan *billingv1.RequestReport, 100), admits: make(chan *billingv1.AdmitRequest, 100),
			renewals: make(chan *billingv1.RenewRequest, 100)},
		router:    &router{selects: make(chan *routerv1.SelectRequest, 100)},
		catalog:   &catalogPeer{models: []*catalogv1.Model{testModel()}},
		hub:       &hub{opens: make(chan *hubv1.DispatchOpen, 100), ended: make(chan error, 100)},
		market:    &market{},
		ownKeys:   &ownKeys{},
		visits:    &visits{made: map[string]int{}, sessions: map[string]string{}},
		cards:     newCards(),
		shop:      &shop{},
		people:    &people{},
		staff:     &staff{},
		pieces:    make(chan struct{}, 3),
		penalties: &penalties{}, earned: &earned{}, collateral: &keptCollateral{}, verification: &verification{},
		claims: &claims{kept: map[string]*claimed{}, ended: make(chan *billingv1.FinishKeyRequest, 100)},
	}
	f.hub.script = wholeAnswer
	f.selves, f.providerKey = newSelves(t)
	f.cfg.MachineTokens = config.NewSecret(machine(operatorName, operator.Admin, adminToken))
	f.cfg.WrongTokens = 1_000_000 // a test of them sets its own
	for _, c := range change {
		c(&f.cfg)
	}
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), metricnoop.MeterProvider{},
		tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	f.named = &named{}
	f.named.ClientConnInterface = connect(t, in, f.register)
	f.svc, err = New(t.Context(), f.cfg, f.deps())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// loops runs what Run does but for the NATS subscription, which cannot live in
// a synctest bubble.
func (f *fleet) loops() {
	ctx, stop := context.WithCancel(f.t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { f.svc.models.Run(ctx) })
	loops.Go(func() { f.svc.reports.Run(ctx) })
	loops.Go(func() { f.svc.leases.Run(ctx) })
	f.t.Cleanup(func() {
		stop()
		loops.Wait()
	})
	f.catalog.awaitSnapshot(f)
}

// start runs a gateway on a socket, its peers in the same process.
func start(t testing.TB, change ...func(*Config)) *fleet {
	t.Helper()
	return newFleet(t, change...).start()
}

func (f *fleet) start() *fleet {
	t := f.t
	t.Helper()
	f.svc.deps.Bus = bustest.New(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.svc.Run(ctx) }()
	server := httptest.NewServer(f.svc.Handler())
	operators := httptest.NewServer(f.svc.OperatorHandler())
	f.base, f.operators, f.client = server.URL, operators.URL, server.Client()
	t.Cleanup(func() {
		server.Close()
		operators.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	f.catalog.awaitSnapshot(f)
	return f
}

func testModel() *catalogv1.Model {
	return &catalogv1.Model{
		ModelId: modelID, Slug: modelSlug, Name: "Tiny", Category: catalogv1.Category_CATEGORY_LLM, Active: true,
		ContextLength: 8192, MaxOutputTokens: 1024, Supply: &catalogv1.Supply{OnlineProviders: 2},
	}
}

func testRates() *moneyv1.Rates {
	return &moneyv1.Rates{
		InputPicoUsdPerToken: 150_000, OutputPicoUsdPerToken: 600_000,
		PayoutInputPicoUsdPerToken: 135_000, PayoutOutputPicoUsdPerToken: 540_000,
	}
}

// keys knows one key.
type keys struct {
	billingv1.UnimplementedKeyServiceServer
	mu      sync.Mutex
	digest  apikey.Digest
	err     error
	allowed []string
	usage   bool // of the key's setting include_usage
	asked   int
	slow    time.Duration // of a look-up, unless the caller gives up before
}

// take has look-ups take a time, and returns how many there were.
func (k *keys) take(slow time.Duration) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slow = slow
	n := k.asked
	k.asked = 0
	return n
}

func (k *keys) set(err error, allowed ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err, k.allowed = err, allowed
}

// includeUsage has answers to the key show their usage.
func (k *keys) includeUsage() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.usage = true
}

func (k *keys) AuthenticateKey(
	ctx context.Context, req *billingv1.AuthenticateKeyRequest,
) (*billingv1.AuthenticateKeyResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.slow > 0 {
		slow := time.After(k.slow)
		k.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-slow:
		}
		k.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if k.err != nil {
		return nil, k.err
	}
	if !bytes.Equal(req.GetKeySha256(), k.digest[:]) {
		return nil, unknownKey()
	}
	return &billingv1.AuthenticateKeyResponse{KeyId: "key-1", AccountId: "account-1", AccountTag: []byte("8 bytes!"),
		IncludeUsage: k.usage, Priority: true, AllowedModelIds: k.allowed}, nil
}

// billing admits everything unless the test says otherwise, and collects request reports.
type billing struct {
	billingv1.UnimplementedAdmissionServiceServer
	admits   chan *billingv1.AdmitRequest
	reports  chan *billingv1.RequestReport
	renewals chan *billingv1.RenewRequest
	mu       sync.Mutex
	err      error
	paid     billingv1.BillingType // 0 for pay-as-you-go
	lose     int                   // so many calls of Conclude fail
	reads    int                   // of rates
	unread   func(context.Context) error
	lapse    bool                      // holds that are renewed were given back
	noRate   bool                      // keys have no noRate of their rates
	allow    atomic.Pointer[allowance] // nil admits everything
}

// loseAccounts lets the next n calls of Conclude fail.
func (b *billing) loseAccounts(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose = n
}

func (b *billing) loses() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose--
	return b.lose >= 0
}

// payBy says how what is admitted from now on is paid for.
func (b *billing) payBy(t billingv1.BillingType) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid = t
}

func (b *billing) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *billing) Admit(_ context.Context, req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	b.admits <- req
	resp, err := b.admit(req)
	if allow := b.allow.Load(); err != nil && allow != nil && allow.refused != nil {
		allow.refused()
	}
	return resp, err
}

func (b *billing) admit(req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	if allow := b.allow.Load(); allow != nil {
		if err := allow.take(req.GetRequestId()); err != nil {
			return nil, err
		}
	}
	terms := &billingv1.AdmitResponse{
		AccountId: "account-1", BillingType: max(b.paid, billingv1.BillingType_BILLING_TYPE_PAYG), PriceVersionId: "price-1",
		Priority: true,
		Rates:    testRates(), LedgerMac: []byte("MAC of " + req.GetRequestId()),
		Ticket: []byte("ticket of " + req.GetRequestId()),
	}
	if !b.noRate {
		terms.Requests = &billingv1.RateLimit{Limit: 200, Remaining: 199, ResetMs: 30_500}
	}
	return terms, nil
}

func (b *billing) Conclude(_ context.Context, req *billingv1.ConcludeRequest) (*billingv1.ConcludeResponse, error) {
	if b.loses() {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the accounts are not taken")
	}
	for _, w := range req.GetReports() {
		if allow := b.allow.Load(); allow != nil {
			allow.end(w.GetRequestId())
		}
		b.reports <- w
	}
	return &billingv1.ConcludeResponse{}, nil
}

func (b *billing) Renew(_ context.Context, req *billingv1.RenewRequest) (*billingv1.RenewResponse, error) {
	b.renewals <- req
	b.mu.Lock()
	defer b.mu.Unlock()
	resp := &billingv1.RenewResponse{}
	for _, r := range req.GetRequests() {
		if b.lapse {
			resp.LapsedRequestIds = append(resp.LapsedRequestIds, r.GetRequestId())
		}
	}
	return resp, nil
}

// lapses tells from now on that holds were given back.
func (b *billing) lapses() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapse = true
}

// stillClock is the machine's, as a process sees it that may have stood still:
// its timers know nothing of that.
type stillClock struct{ ahead atomic.Int64 }

func (c *stillClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *stillClock) standStill(d time.Duration) { c.ahead.Add(int64(d)) }

// router offers A then B unless the test says otherwise.
type router struct {
	routerv1.UnimplementedRouterServiceServer
	selects chan *routerv1.SelectRequest
	mu      sync.Mutex
	answer  func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error)
}

func (r *router) set(answer func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *router) refuse(err error) {
	r.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) { return nil, err })
}

// ListBreakers has an open one.
func (r *router) ListBreakers(
	context.Context, *routerv1.ListBreakersRequest,
) (*routerv1.ListBreakersResponse, error) {
	return &routerv1.ListBreakersResponse{Total: 1,
		List: []*routerv1.Breaker{{ProviderId: providerA, ModelId: modelID, State: "open"}}}, nil
}

// ExplainProvider says that provider A was full twice.
func (r *router) ExplainProvider(
	_ context.Context, req *routerv1.ExplainProviderRequest,
) (*routerv1.ExplainProviderResponse, error) {
	if req.GetProviderId() != providerA {
		return &routerv1.ExplainProviderResponse{}, nil
	}
	return &routerv1.ExplainProviderResponse{Rejects: []*routerv1.RejectCount{{Reason: "full", Count: 2}},
		Models: []*routerv1.ModelHealth{{ModelId: modelID, Breaker: "open", Lane: "main"}}}, nil
}

func (r *router) Select(ctx context.Context, req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
	r.selects <- req
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		return candidates(providerA, providerB), nil
	}
	var resp *routerv1.SelectResponse
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		resp, err = answer(req)
	}()
	select {
	case <-answered:
		return resp, err
	case <-ctx.Done(): // a handler does not outlast its call
		return nil, ctx.Err()
	}
}

func candidates(providers ...string) *routerv1.SelectResponse {
	resp := &routerv1.SelectResponse{}
	for _, p := range providers {
		resp.Candidates = append(resp.Candidates, &routerv1.Candidate{
			ProviderId: p, ProviderName: "Provider " + p[len(p)-1:], NodeId: "node-1", Epoch: 7, HubId: "hub-1",
			DispatchAddress: "inprocess", ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
			ContextLength: 4096, ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_REPORTED,
		})
	}
	return resp
}

// catalogPeer sends one snapshot.
type catalogPeer struct {
	catalogv1.UnimplementedCatalogServiceServer
	models []*catalogv1.Model
}

func (c *catalogPeer) WatchModels(
	_ *catalogv1.WatchModelsRequest, stream catalogv1.CatalogService_WatchModelsServer,
) error {
	if err := stream.Send(&catalogv1.WatchModelsResponse{Revision: 1, Models: c.models}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (c *catalogPeer) awaitSnapshot(f *fleet) {
	for end := time.Now().Add(patience); f.svc.Ready(context.Background()) != nil; yield() {
		if time.Now().After(end) {
			f.t.Fatal("the gateway has no models")
		}
	}
}

// post sends a body to the chat endpoint with the key.
func (f *fleet) post(body string, headers ...string) *http.Response {
	f.t.Helper()
	return f.do(http.MethodPost, "/v1/chat/completions", body, append([]string{"Authorization", "Bearer " + f.key},
		headers...)...)
}

// do makes a request of the public listener, or of the operators' for their routes.
func (f *fleet) do(method, path, body string, headers ...string) *http.Response {
	f.t.Helper()
	base := f.base
	if strings.HasPrefix(path, "/api/v1/admin/") {
		base = f.operators
	}
	return f.doAt(base, method, path, body, headers...)
}

func (f *fleet) doAt(base, method, path, body string, headers ...string) *http.Response {
	f.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), method, base+path, reader)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return string(body)
}

// listen serves a gateway whose loops run already.
func (f *fleet) listen() {
	server := httptest.NewServer(f.svc.Handler())
	operators := httptest.NewServer(f.svc.OperatorHandler())
	f.base, f.operators, f.client = server.URL, operators.URL, server.Client()
	f.t.Cleanup(server.Close)
}
