package providerhub_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/usagebundle"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	providerhub "svc.internal/services/provider-hub"
	"svc.internal/services/provider-hub/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	testModel = "acme/tiny-1b"
	testHub   = "hub-a"

	// patience is how long a test waits for what must happen, on a machine that
	// has much else to do.
	patience = 90 * time.Second
	// callPatience bounds a call with all that a test does meanwhile.
	callPatience = 10 * time.Minute
	// wallMs is the limit that an endless answer runs into, in milliseconds. A slow machine relays the
	// first words within it.
	wallMs = 10_000
)

type hubConfig = providerhub.Config

// world is a hub with its database and its bus, and what they have said.
type world struct {
	t   testing.TB
	db  *pgxpool.Pool
	bus *bus.Conn
	cfg providerhub.Config
	log *slog.Logger
	// catalog says which models are gateway models; nil for none.
	catalog catalogv1.CatalogServiceClient

	hub *running
}

// running is one life of the hub.
type running struct {
	service   *providerhub.Service
	http      *httptest.Server
	dispatch  hubv1.DispatchServiceClient
	admin     hubv1.ProviderAdminServiceClient
	directory hubv1.ProviderDirectoryServiceClient
	challenge hubv1.ChallengeServiceClient
	verdict   hubv1.VerdictServiceClient
	stop      context.CancelFunc
	ended     chan error
	once      sync.Once
}

func setup(t testing.TB, change ...func(*providerhub.Config)) *world {
	t.Helper()
	w := prepared(t, change...)
	w.start()
	return w
}

// prepared is a world whose hub has not begun.
func prepared(t testing.TB, change ...func(*providerhub.Config)) *world {
	t.Helper()
	cfg := providerhub.DefaultConfig()
	cfg.HubID, cfg.DispatchAddress, cfg.JournalDir = testHub, "inprocess", t.TempDir()
	cfg.Pepper = apikey.Pepper{7}
	cfg.DrainTimeout = 200 * time.Millisecond
	// A test that is late loses nothing by it, unless being late is what it is of.
	cfg.RegisterTimeout, cfg.CommitWait, cfg.PongTimeout, cfg.SessionTimeout = patience, patience, patience, patience
	cfg.JournalSegmentBytes, cfg.JournalMaxBytes = 1<<20, 64<<20
	for _, f := range change {
		f(&cfg)
	}
	return &world{
		t: t, cfg: cfg, log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		db:  pgtest.Pool(t, store.Schema, store.Role, store.Migrations),
		bus: bustest.New(t),
	}
}

// testWriter writes logs to the test's own.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// start begins a life of the hub.
func (w *world) start() *running {
	w.t.Helper()
	service, err := providerhub.New(w.t.Context(), w.cfg, providerhub.Deps{
		Log: w.log, Meters: noop.NewMeterProvider(), Clock: clock.System, Random: rand.Reader, Bus: w.bus, DB: w.db,
		Catalog: w.catalog,
	})
	must(w.t, err)
	h := w.connect(service)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.ended <- service.Run(ctx) }()
	w.hub = h
	w.t.Cleanup(func() { w.halt(h) })
	w.eventually("the hub is ready", func() error { return service.Ready(w.t.Context()) })
	return h
}

// connect makes the clients of a service that runs or not.
func (w *world) connect(service *providerhub.Service) *running {
	w.t.Helper()
	interceptors, err := serve.NewInterceptors(w.log, noop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		providerhub.Tables().Fault)
	must(w.t, err)
	channel := serve.NewInProcess(interceptors)
	service.Register(channel)
	return &running{
		service: service, http: httptest.NewServer(service.Handler()), ended: make(chan error, 1),
		dispatch:  hubv1.NewDispatchServiceClient(channel.Client()),
		admin:     hubv1.NewProviderAdminServiceClient(channel.Client()),
		directory: hubv1.NewProviderDirectoryServiceClient(channel.Client()),
		challenge: hubv1.NewChallengeServiceClient(channel.Client()),
		verdict:   hubv1.NewVerdictServiceClient(channel.Client()),
	}
}

// halt ends a life as SIGTERM does.
func (w *world) halt(h *running) {
	h.once.Do(func() {
		h.stop()
		if err := <-h.ended; err != nil {
			w.t.Errorf("hub ended: %v", err)
		}
		h.http.Close()
	})
}

// eventually asks again until there is no error. It is for what gives no
// signal: it waits on a ticker, and only as long as it must.
func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			w.t.Fatalf("%s: %v", what, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// member is a provider with a key.
type member struct {
	id, keyID, key string
}

// provider opens an account in a status and issues a key.
func (w *world) provider(status hubv1.ProviderStatus) member {
	w.t.Helper()
	ctx := w.t.Context()
	made, err := w.hub.admin.CreateProvider(ctx, &hubv1.CreateProviderRequest{Name: "Farm", Region: "eu"})
	must(w.t, err)
	id := made.GetProvider().GetProviderId()
	switch status {
	case hubv1.ProviderStatus_PROVIDER_STATUS_PENDING:
	case hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE:
		w.activate(id)
	default:
		_, err = w.hub.admin.SetProviderStatus(ctx, &hubv1.SetProviderStatusRequest{ProviderId: id, Status: status})
		must(w.t, err)
	}
	key, err := w.hub.admin.IssueProviderKey(ctx, &hubv1.IssueProviderKeyRequest{ProviderId: id, Name: "k"})
	must(w.t, err)
	return member{id: id, keyID: key.GetKeyId(), key: key.GetApiKey()}
}

// activate has everything confirmed that activation needs: collateral and a waiver of the
// GPU rule by an operator, and the benchmark by the verifier.
func (w *world) activate(id string) {
	w.t.Helper()
	_, err := w.hub.admin.ConfirmQualification(w.t.Context(), &hubv1.ConfirmQualificationRequest{
		ProviderId: id, Collateral: yes(), GpuWaived: yes(),
	})
	must(w.t, err)
	w.benchmark(id)
}

// benchmark is the verifier's word that a benchmark was passed now.
func (w *world) benchmark(id string) {
	w.t.Helper()
	now := time.Now()
	_, err := w.hub.verdict.ReportBenchmark(w.t.Context(), &hubv1.ReportBenchmarkRequest{
		ProviderId: id, Passed: true, PassedAt: timestamppb.New(now), Revision: now.UnixMicro(),
	})
	must(w.t, err)
}

func (w *world) active() member { return w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE) }

func (w *world) wsURL() string { return "ws" + strings.TrimPrefix(w.hub.http.URL, "http") + "/ws" }

// dial connects an agent of m; opts may say more of it.
func (w *world) dial(m member, opts fakeagent.Options) *fakeagent.Agent {
	w.t.Helper()
	a, err := w.tryDial(m, opts)
	must(w.t, err)
	w.t.Cleanup(func() {
		a.Close()
		if err := a.Fault(); err != nil {
			w.t.Errorf("the hub broke the protocol: %v", err)
		}
	})
	return a
}

func (w *world) tryDial(m member, opts fakeagent.Options) (*fakeagent.Agent, error) {
	opts.Key = m.key
	if opts.Models == nil && opts.Offers == nil {
		opts.Models = []string{testModel}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return fakeagent.Dial(ctx, w.wsURL(), opts)
}

// order is an Open for an agent's session.
func order(m member, a *fakeagent.Agent, stream bool) *hubv1.DispatchOpen {
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		panic(err)
	}
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, testModel, stream)
	return &hubv1.DispatchOpen{
		RequestId: id.String(), Attempt: 1, ProviderId: m.id, NodeId: "fake-node-1", Epoch: a.Epoch(),
		ModelId: testModel, Stream: stream, Body: []byte(body), ModelOffset: 9, ModelLength: uint32(len(testModel) + 2),
		EstimatedPromptTokens: 12, MaxOutputTokens: 1000, Choices: 1, PriceVersionId: "pv",
		Rates: &moneyv1.Rates{InputPicoUsdPerToken: 2, OutputPicoUsdPerToken: 4,
			PayoutInputPicoUsdPerToken: 1, PayoutOutputPicoUsdPerToken: 3},
		FirstContentTimeoutMs: 60_000, TotalTimeoutMs: 120_000,
	}
}

// call is a dispatch under way, as a gateway sees it.
type call struct {
	t      testing.TB
	stream hubv1.DispatchService_DispatchClient
	cancel context.CancelFunc
}

func (w *world) call(open *hubv1.DispatchOpen) *call {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), callPatience)
	w.t.Cleanup(cancel)
	stream, err := w.hub.dispatch.Dispatch(ctx)
	must(w.t, err)
	c := &call{t: w.t, stream: stream, cancel: cancel}
	must(w.t, stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Open{Open: proto.CloneOf(open)}}))
	return c
}

func (c *call) commit() {
	c.t.Helper()
	must(c.t, c.stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Commit{
		Commit: &hubv1.DispatchCommit{}}}))
}

// event waits for an event.
func (c *call) event() *hubv1.DispatchEvent {
	c.t.Helper()
	m, err := c.stream.Recv()
	must(c.t, err)
	if m.GetEvent() == nil {
		c.t.Fatalf("got %v, want an event", m)
	}
	return m.GetEvent()
}

// content waits for the first content, commits, and returns the events up to
// it.
func (c *call) content() []*hubv1.DispatchEvent {
	c.t.Helper()
	var events []*hubv1.DispatchEvent
	for {
		e := c.event()
		events = append(events, proto.CloneOf(e))
		if e.GetFirstContent() {
			c.commit()
			return events
		}
	}
}

// result is how a call ended.
type result struct {
	events   []*hubv1.DispatchEvent
	finished *hubv1.DispatchFinished
	failed   *hubv1.DispatchFailed
}

func (r result) texts() []string {
	var all []string
	for _, e := range r.events {
		all = append(all, string(e.GetJson()))
	}
	return all
}

// rest reads to the end, committing at the first content if there still is one.
func (c *call) rest() result {
	c.t.Helper()
	var r result
	for {
		m, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return r
		}
		must(c.t, err)
		switch {
		case m.GetEvent() != nil:
			r.events = append(r.events, proto.CloneOf(m.GetEvent()))
			if m.GetEvent().GetFirstContent() {
				c.commit()
			}
		case m.GetFinished() != nil:
			r.finished = m.GetFinished()
		case m.GetFailed() != nil:
			r.failed = m.GetFailed()
		}
	}
}

// err reads an error where a message was due.
func (c *call) err() error {
	_, err := c.stream.Recv()
	return err
}

// usages collects usage events, as billing does.
type usages struct {
	w     *world
	mu    sync.Mutex
	all   []*eventsv1.UsageEvent
	ids   []string
	first chan struct{}
}

// listen consumes USAGE from its beginning.
func (w *world) listen() *usages {
	u := &usages{w: w, first: make(chan struct{}, 1024)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := w.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.UsageStream, Durable: "billing"}, u.take)
		if err != nil {
			w.t.Errorf("consume: %v", err)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	// The consumer stands once it has seen this: the embedded server races with
	// itself when a stream is ensured while a consumer is being made.
	must(w.t, w.bus.EnsureStream(ctx, bus.UsageStream))
	_, err := w.bus.PublishStream(ctx, marker, "marker", nil, nil)
	must(w.t, err)
	wait(w.t, "the consumer", u.first)
	return u
}

// marker is a subject that no hub publishes on.
const marker = "usage.v1.marker"

func (u *usages) take(_ context.Context, messages []bus.Msg) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range messages {
		if m.Subject == marker {
			u.first <- struct{}{}
			continue
		}
		for _, event := range usagebundle.Split(m.Data) {
			e := &eventsv1.UsageEvent{}
			if err := proto.Unmarshal(event, e); err != nil {
				return err
			}
			u.all = append(u.all, e)
			u.ids = append(u.ids, m.ID)
			u.first <- struct{}{}
		}
	}
	return nil
}

// next waits for the next usage event.
func (u *usages) next(n int) *eventsv1.UsageEvent {
	u.w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		u.mu.Lock()
		if len(u.all) >= n {
			defer u.mu.Unlock()
			return u.all[n-1]
		}
		u.mu.Unlock()
		select {
		case <-u.first:
		case <-deadline.C:
			u.w.t.Fatalf("usage event %d did not come", n)
		}
	}
}

func (u *usages) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.all)
}

// settle says that billing-ledger has settled requests.
func (w *world) settle(requests ...string) {
	w.t.Helper()
	data, err := proto.Marshal(&eventsv1.SettledNotice{RequestIds: requests})
	must(w.t, err)
	must(w.t, w.bus.Publish(w.t.Context(), bus.SubjectSettled(testHub), data, nil))
}

// requested is an agent that gets requests.
type requested interface {
	Requests() <-chan *fakeagent.Request
}

// received waits for the next request that an agent gets. A hub that is too slow may have cut the agent.
func received(t testing.TB, a requested) *fakeagent.Request {
	t.Helper()
	select {
	case r := <-a.Requests():
		return r
	case <-time.After(patience):
		t.Fatal("no request reached the agent")
		return nil
	}
}

// wait waits for a signal, or for what a channel has next.
func wait[T any](t testing.TB, what string, signal <-chan T) T {
	t.Helper()
	select {
	case v := <-signal:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}
