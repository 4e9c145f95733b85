package providerhub_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	providerhub "svc.internal/services/provider-hub"
)

const endpointKey = "sk-endpoint-0123456789abcdef"

// vendor is a TLS server of a provider, on loopback.
type vendor struct {
	*httptest.Server
	t testing.TB
	// chat answers POST /v1/chat/completions, and models GET /v1/models.
	chat, models http.HandlerFunc
	// hosts counts the requests by their path, foreign those without the key.
	foreign atomic.Int64
	gone    chan struct{} // signalled when a client has left a chat
}

func serveModels(names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = fmt.Sprintf(`{"id":%q}`, name)
		}
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(list, ","))
	}
}

func newVendor(t testing.TB) *vendor {
	v := &vendor{t: t, models: serveModels("tiny-local"), gone: make(chan struct{}, 16)}
	v.chat = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Svc-Cost-Usd", "0")
		_, _ = io.WriteString(w, chunks("Hello", " world"))
	}
	v.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+endpointKey {
			v.foreign.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.Method + " " + r.URL.Path {
		case "GET /v1/models":
			v.models(w, r)
		case "POST /v1/chat/completions":
			v.chat(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(v.Close)
	return v
}

// chunks is a stream of those pieces with its usage.
func chunks(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny-local",`+
			`"choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", p)
	}
	b.WriteString(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny-local",` +
		`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n")
	fmt.Fprintf(&b, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny-local","choices":[],`+
		`"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}`+"\n\ndata: [DONE]\n\n", len(pieces),
		10+len(pieces))
	return b.String()
}

func (v *vendor) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(v.Certificate())
	return pool
}

// farm is a hub with an active provider that has one endpoint.
type farm struct {
	*world
	member
	vendor    *vendor
	endpoints hubv1.ExternalEndpointServiceClient
	admin     hubv1.ExternalEndpointAdminServiceClient
	heard     <-chan *eventsv1.Session
	id        string
}

func (w *world) channel(h *running) grpc.ClientConnInterface {
	w.t.Helper()
	interceptors, err := serve.NewInterceptors(w.log, noop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		providerhub.Tables().Fault)
	must(w.t, err)
	channel := serve.NewInProcess(interceptors)
	h.service.Register(channel)
	return channel.Client()
}

func setupFarm(t testing.TB, v *vendor, change ...func(*providerhub.Config)) *farm {
	t.Helper()
	w := setup(t, append([]func(*providerhub.Config){func(c *providerhub.Config) {
		c.DevelopmentEndpoints, c.EndpointAuthorities = true, v.pool()
		c.EndpointProbeInterval = 20 * time.Millisecond
	}}, change...)...)
	f := &farm{world: w, member: w.active(), vendor: v, heard: w.presences()}
	f.endpoints = hubv1.NewExternalEndpointServiceClient(w.channel(w.hub))
	f.admin = hubv1.NewExternalEndpointAdminServiceClient(w.channel(w.hub))
	made, err := f.endpoints.CreateExternalEndpoint(t.Context(), &hubv1.CreateExternalEndpointRequest{
		ProviderId: f.member.id, Name: "Rack", BaseUrl: v.URL + "/v1/", ApiKey: endpointKey,
		Models: []*hubv1.ExternalModel{{ModelId: testModel, LocalModel: "tiny-local", ContextLength: 4096, Capacity: 4}},
	})
	must(t, err)
	f.id = made.GetEndpoint().GetEndpointId()
	return f
}

// session waits for a session of the endpoint that is as ok wants.
func (f *farm) session(what string, ok func(*eventsv1.Session) bool) *eventsv1.Session {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		select {
		case s := <-f.heard:
			if s.GetProviderId() == f.member.id && strings.HasSuffix(s.GetNodeId(), f.id) && ok(s) {
				return s
			}
		case <-ctx.Done():
			f.t.Fatalf("%s: was not told", what)
		}
	}
}

func healthy(s *eventsv1.Session) bool {
	return s.GetActive() && len(s.GetModels()) == 1 && s.GetModels()[0].GetHealthy()
}

// ask is an Open for a session of the endpoint.
func (f *farm) ask(s *eventsv1.Session, stream bool) *hubv1.DispatchOpen {
	f.t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	must(f.t, err)
	return &hubv1.DispatchOpen{
		RequestId: id.String(), Attempt: 1, ProviderId: f.member.id, NodeId: s.GetNodeId(), Epoch: s.GetEpoch(),
		ModelId: testModel, Stream: stream,
		Body: fmt.Appendf(nil, `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, testModel,
			stream),
		ModelOffset: 9, ModelLength: uint32(len(testModel) + 2), EstimatedPromptTokens: 12, MaxOutputTokens: 1000, Choices: 1,
		PriceVersionId: "pv", Rates: &moneyv1.Rates{InputPicoUsdPerToken: 2, OutputPicoUsdPerToken: 4,
			PayoutInputPicoUsdPerToken: 1, PayoutOutputPicoUsdPerToken: 3},
		FirstContentTimeoutMs: 60_000, TotalTimeoutMs: 120_000,
	}
}

func TestAnExternalEndpointServesRequestsAsAnAgentDoes(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	body := make(chan string, 2)
	answer := v.chat
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		body <- string(sent)
		if strings.Contains(string(sent), `"stream":true`) {
			answer(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"tiny-local",`+
			`"choices":[{"index":0,"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`)
	}
	f := setupFarm(t, v)
	usage := f.listen()
	s := f.session("the endpoint is up", healthy)
	r := f.call(f.ask(s, true)).rest()
	if r.failed != nil {
		t.Fatalf("a stream: got the failure %v, want none", r.failed)
	}
	if got := strings.Join(r.texts(), ""); !strings.Contains(got, "Hello") {
		t.Errorf("a stream: got %q, want its text", got)
	} else if strings.Contains(got, "tiny-local") {
		t.Errorf("a stream: got %q, want it under the catalog's name", got)
	}
	if got := <-body; !strings.HasPrefix(got, `{"model":"tiny-local",`) {
		t.Errorf("the server was sent %q, want its own name of the model", got)
	}
	if got := usage.next(1); got.GetBillableCompletionTokens() != 2 {
		t.Errorf("usage of a stream: completion: got %d, want 2", got.GetBillableCompletionTokens())
	} else if got.GetEpoch() != s.GetEpoch() {
		t.Errorf("usage of a stream: epoch: got %d, want %d", got.GetEpoch(), s.GetEpoch())
	}
	r = f.call(f.ask(s, false)).rest()
	if len(r.events) != 1 {
		t.Fatalf("a whole answer: got %d events and the failure %v, want one event", len(r.events), r.failed)
	}
	if got := r.texts()[0]; !strings.Contains(got, `"Hello world"`) {
		t.Errorf("a whole answer: got %q, want its text", got)
	}
	got, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{ProviderId: f.member.id,
		EndpointId: f.id})
	must(t, err)
	if e := got.GetEndpoint(); e.GetState() != "healthy" {
		t.Errorf("state: got %q with %q, want healthy", e.GetState(), e.GetLastError())
	} else if e.GetHubId() != testHub {
		t.Errorf("hub: got %q, want %q", e.GetHubId(), testHub)
	} else if strings.Contains(e.String(), endpointKey) {
		t.Error("the key of an endpoint is shown")
	}
	if n := v.foreign.Load(); n != 0 {
		t.Errorf("requests without the key: got %d, want 0", n)
	}
}

func TestARequestThatIsGivenUpClosesTheCallOfTheServer(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	began := make(chan struct{}, 1)
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.SplitAfter(chunks("Hello"), "\n\n")[0])
		_ = http.NewResponseController(w).Flush()
		began <- struct{}{}
		<-r.Context().Done()
		v.gone <- struct{}{}
	}
	f := setupFarm(t, v)
	c := f.call(f.ask(f.session("the endpoint is up", healthy), true))
	c.content()
	wait(t, "the call", began)
	c.cancel()
	wait(t, "the end of the call", v.gone)
}

// What a server says with its status becomes what an agent's engine would have said.
func TestErrorsOfAServerAreThoseOfAnEngine(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	status := make(chan int, 1)
	v.chat = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(<-status)
		_, _ = io.WriteString(w, `{"error":{"message":"of `+endpointKey+` no"}}`)
	}
	f := setupFarm(t, v)
	s := f.session("the endpoint is up", healthy)
	for code, want := range map[int]struct{ busy, retryable bool }{
		429: {true, true}, 500: {false, true}, 503: {false, true}, 401: {false, true}, 302: {false, true},
		404: {false, true},
	} {
		status <- code
		r := f.call(f.ask(s, true)).rest()
		if r.failed == nil {
			t.Fatalf("%d: got no failure, want one", code)
		}
		if r.failed.GetBusy() != want.busy {
			t.Errorf("%d: busy: got %v, want %v", code, r.failed.GetBusy(), want.busy)
		}
		if r.failed.GetRetryable() != want.retryable {
			t.Errorf("%d: retryable: got %v, want %v", code, r.failed.GetRetryable(), want.retryable)
		}
		if strings.Contains(r.failed.String(), endpointKey) {
			t.Errorf("%d: the failure has the key: %v", code, r.failed)
		}
	}
}

// A server may repeat what it was sent. Nothing of its key goes to a consumer.
func TestAKeyThatAServerRepeatsReachesNobody(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, chunks("Hello", r.Header.Get("Authorization")))
	}
	f := setupFarm(t, v)
	r := f.call(f.ask(f.session("the endpoint is up", healthy), true)).rest()
	if got := strings.Join(r.texts(), "") + r.failed.String(); strings.Contains(got, endpointKey) {
		t.Errorf("got %q, want it without the key", got)
	}
	if r.finished != nil {
		t.Error("an answer with the key is finished, want it cut off")
	}
}

func TestAnAnswerWithoutEndOrLineBreakIsStopped(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.chat = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `data: {"x":"`)
		line := []byte(strings.Repeat("x", 1<<16))
		for {
			if _, err := w.Write(line); err != nil {
				v.gone <- struct{}{}
				return
			}
		}
	}
	f := setupFarm(t, v)
	r := f.call(f.ask(f.session("the endpoint is up", healthy), true)).rest()
	if r.failed == nil {
		t.Error("a line without end: got no failure, want one")
	}
	wait(t, "the end of the call", v.gone)
}

func TestAServerThatFailsItsProbesLosesItsSessionAndGetsAnother(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var down atomic.Bool
	v.models = func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Redirect(w, r, "https://10.0.0.1/v1/models", http.StatusFound)
			return
		}
		serveModels("tiny-local")(w, r)
	}
	f := setupFarm(t, v)
	first := f.session("the endpoint is up", healthy)
	down.Store(true)
	f.eventually("the owner sees it", func() error {
		got, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{
			ProviderId: f.member.id, EndpointId: f.id})
		if err != nil {
			return err
		}
		if e := got.GetEndpoint(); e.GetState() != "unhealthy" || e.GetLastError() != "unexpected_status" {
			return errors.New(e.GetState() + " " + e.GetLastError())
		}
		return nil
	})
	f.eventually("the session is gone", func() error {
		if err := f.call(f.ask(first, true)).err(); !fault.Is(err, fault.SessionGone) {
			return fmt.Errorf("got the error %w, want the reason %v", err, fault.SessionGone)
		}
		return nil
	})
	down.Store(false)
	f.session("the endpoint is back", func(s *eventsv1.Session) bool {
		return healthy(s) && s.GetEpoch() > first.GetEpoch()
	})
}

func TestAModelThatTheServersListLacksIsNotHealthy(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var lists atomic.Pointer[http.HandlerFunc]
	set := func(names ...string) { h := serveModels(names...); lists.Store(&h) }
	set("tiny-local", "second")
	v.models = func(w http.ResponseWriter, r *http.Request) { (*lists.Load())(w, r) }
	f := setupFarm(t, v)
	_, err := f.endpoints.UpdateExternalEndpoint(t.Context(), &hubv1.UpdateExternalEndpointRequest{
		ProviderId: f.member.id, EndpointId: f.id, Models: []*hubv1.ExternalModel{
			{ModelId: testModel, LocalModel: "tiny-local"}, {ModelId: "acme/second", LocalModel: "second"},
		}})
	must(t, err)
	well := func(s *eventsv1.Session) (n int) {
		for _, m := range s.GetModels() {
			if m.GetHealthy() {
				n++
			}
		}
		return n
	}
	f.session("both models", func(s *eventsv1.Session) bool { return well(s) == 2 })
	set("tiny-local")
	f.session("one of them", func(s *eventsv1.Session) bool { return len(s.GetModels()) == 2 && well(s) == 1 })
}

// A key is sent to the origin that it was given for, and nowhere else.
func TestAKeyIsNotTakenToAnotherOrigin(t *testing.T) {
	t.Parallel()
	v, other := newVendor(t), newVendor(t)
	f := setupFarm(t, v, func(c *providerhub.Config) {
		pool := v.pool()
		pool.AddCert(other.Certificate())
		c.EndpointAuthorities = pool
	})
	f.session("the endpoint is up", healthy)
	move := func(m *hubv1.UpdateExternalEndpointRequest) error {
		base := other.URL + "/v1"
		m.ProviderId, m.EndpointId, m.BaseUrl = f.member.id, f.id, &base
		_, err := f.endpoints.UpdateExternalEndpoint(t.Context(), m)
		return err
	}
	if err := move(&hubv1.UpdateExternalEndpointRequest{}); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("without the key: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	key := endpointKey
	must(t, move(&hubv1.UpdateExternalEndpointRequest{ApiKey: &key}))
	f.session("the endpoint is up elsewhere", healthy)
	// Whoever writes to the tables moves no key either.
	_, err := f.db.Exec(t.Context(), `UPDATE external_endpoint SET base_url = $1, revision = revision + 1`, v.URL+"/v1")
	must(t, err)
	f.eventually("the owner sees it", func() error {
		got, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{
			ProviderId: f.member.id, EndpointId: f.id})
		if err != nil {
			return err
		}
		if got.GetEndpoint().GetLastError() != "key_unreadable" {
			return errors.New(got.GetEndpoint().GetLastError())
		}
		return nil
	})
}

func TestEndpointsOfThisNetworkAreRefusedAndNotCalled(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	w := setup(t, func(c *providerhub.Config) {
		c.EndpointAuthorities, c.EndpointProbeInterval = v.pool(), 10*time.Millisecond
	})
	m := w.active()
	endpoints := hubv1.NewExternalEndpointServiceClient(w.channel(w.hub))
	create := func(base string) (*hubv1.CreateExternalEndpointResponse, error) {
		return endpoints.CreateExternalEndpoint(t.Context(), &hubv1.CreateExternalEndpointRequest{
			ProviderId: m.id, Name: "Rack", BaseUrl: base, ApiKey: endpointKey,
			Models: []*hubv1.ExternalModel{{ModelId: testModel, LocalModel: "tiny-local"}}})
	}
	for _, bad := range []string{v.URL, "http://api.example.org", "https://127.1", "https://[::ffff:10.0.0.1]/v1",
		"https://api.example.org:5432"} {
		if _, err := create(bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		}
	}
	// A name that was public when it was registered leads here later: the table says so in
	// its place.
	made, err := create("https://api.example.org/v1")
	must(t, err)
	id := made.GetEndpoint().GetEndpointId()
	_, err = w.db.Exec(t.Context(), `
		UPDATE external_endpoint SET base_url = $1, key_sealed = NULL, key_seal = NULL, revision = revision + 1`, v.URL+"/v1")
	must(t, err)
	got, err := endpoints.CheckExternalEndpoint(t.Context(), &hubv1.CheckExternalEndpointRequest{ProviderId: m.id,
		EndpointId: id})
	must(t, err)
	if got.GetEndpoint().GetLastError() != "unreachable" {
		t.Errorf("a server of this machine: got %q, want unreachable", got.GetEndpoint().GetLastError())
	}
	if n := v.foreign.Load(); n != 0 {
		t.Errorf("requests that reached it: got %d, want 0", n)
	}
}

func TestAnOwnerSeesItsOwnEndpointsAndOperatorsAll(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	f := setupFarm(t, v)
	other := f.active()
	for what, call := range map[string]func() error{
		"get": func() error {
			_, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{ProviderId: other.id,
				EndpointId: f.id})
			return err
		},
		"delete": func() error {
			_, err := f.endpoints.DeleteExternalEndpoint(t.Context(), &hubv1.DeleteExternalEndpointRequest{
				ProviderId: other.id, EndpointId: f.id})
			return err
		},
		"check": func() error {
			_, err := f.endpoints.CheckExternalEndpoint(t.Context(), &hubv1.CheckExternalEndpointRequest{
				ProviderId: other.id, EndpointId: f.id})
			return err
		},
		"a malformed id": func() error {
			_, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{ProviderId: other.id,
				EndpointId: "x"})
			return err
		},
	} {
		if err := call(); !fault.Is(err, fault.EndpointNotFound) {
			t.Errorf("%s: got the error %v, want the reason %v", what, err, fault.EndpointNotFound)
		}
	}
	s := f.session("the endpoint is up", healthy)
	off, err := f.admin.SetExternalEndpointState(t.Context(), &hubv1.SetExternalEndpointStateRequest{EndpointId: f.id,
		Disabled: new(true), Reason: "seen"})
	must(t, err)
	if off.GetEndpoint().GetDisabledAt() == nil {
		t.Error("disabled: got no time, want one")
	}
	f.eventually("a disabled endpoint is not served", func() error {
		if err := f.call(f.ask(s, true)).err(); !fault.Is(err, fault.SessionGone) {
			return fmt.Errorf("got the error %w, want the reason %v", err, fault.SessionGone)
		}
		return nil
	})
	all, err := f.admin.ListAllExternalEndpoints(t.Context(), &hubv1.ListAllExternalEndpointsRequest{})
	must(t, err)
	if n := all.GetTotal(); n != 1 {
		t.Errorf("all endpoints: got %d, want 1", n)
	}
	_, err = f.endpoints.DeleteExternalEndpoint(t.Context(), &hubv1.DeleteExternalEndpointRequest{ProviderId: f.member.id,
		EndpointId: f.id})
	must(t, err)
	var acts []string
	rows, err := f.db.Query(t.Context(), `SELECT what || ' ' || changed_by FROM provider_status_change
		WHERE what LIKE 'endpoint_%' ORDER BY change_id`)
	must(t, err)
	for rows.Next() {
		var act string
		must(t, rows.Scan(&act))
		acts = append(acts, act)
	}
	want := []string{"endpoint_added provider", "endpoint_disabled operator", "endpoint_deleted provider"}
	if !slices.Equal(acts, want) {
		t.Errorf("history: got %q, want %q", acts, want)
	}
}

func TestAProviderThatIsSuspendedLosesItsEndpointsToo(t *testing.T) {
	t.Parallel()
	f := setupFarm(t, newVendor(t))
	s := f.session("the endpoint is up", healthy)
	_, err := f.hub.admin.SetProviderStatus(t.Context(), &hubv1.SetProviderStatusRequest{ProviderId: f.member.id,
		Status: hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED})
	must(t, err)
	if err := f.call(f.ask(s, true)).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("got the error %v, want the reason %v", err, fault.SessionGone)
	}
}

// A hub that stops gives its endpoints up, and the next one need not wait for the end of
// the leases.
func TestAHubThatStopsHandsItsEndpointsOver(t *testing.T) {
	t.Parallel()
	f := setupFarm(t, newVendor(t), func(c *providerhub.Config) { c.EndpointLease = time.Hour })
	first := f.session("the endpoint is up", healthy)
	f.halt(f.hub)
	f.start()
	f.session("the endpoint is up elsewhere", func(s *eventsv1.Session) bool {
		return healthy(s) && s.GetEpoch() > first.GetEpoch()
	})
}

// The verifier reaches a server as it reaches a node, also before its provider may serve.
func TestAChallengeReachesAnExternalEndpoint(t *testing.T) {
	t.Parallel()
	f := setupFarm(t, newVendor(t))
	s := f.session("the endpoint is up", healthy)
	tr := f.finish(f.begin(t.Context(), inference(f.member, s.GetNodeId(), s.GetEpoch(), true)))
	if got := tr.finished.GetEnd(); got != hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED {
		t.Errorf("end: got %v with %q, want it answered", got, tr.finished.GetError())
	}
	var got strings.Builder
	for _, c := range tr.chunks {
		got.Write(c.GetData())
	}
	if !strings.Contains(got.String(), "Hello") {
		t.Errorf("answer: got %q, want the server's", got.String())
	}
	err := f.try(t.Context(), fingerprint(f.member, s.GetNodeId(), s.GetEpoch())).err
	if !fault.Is(err, fault.ChallengeUnsupported) {
		t.Errorf("a fingerprint: got the error %v, want the reason %v", err, fault.ChallengeUnsupported)
	}
}
