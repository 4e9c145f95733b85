package flow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/fingerprint"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

const (
	model   = "acme/base"
	sibling = "acme/smaller"
)

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	secret = prompt.Secret{7}
)

// engines serve the models of all hosts, by the provider's number. Number 0 is the
// provider under test; it states 16 bits and serves them. 1 and 2 are references of 16
// bits, 3 of 4 bits, 4 of the sibling.
var engines = sync.OnceValue(func() map[int]http.Handler {
	serve := func(m *tinylm.Model, name string) http.Handler {
		return tinylm.NewServer(m, tinylm.Options{ModelName: name})
	}
	return map[int]http.Handler{
		0: serve(lab.Honest(lab.Base(), 1), model), 1: serve(lab.Honest(lab.Base(), 2), model),
		2: serve(lab.Honest(lab.Base(), 3), model), 3: serve(lab.Host(lab.Base(), tinylm.Variant{WeightBits: 4}), model),
		4: serve(lab.Smaller(), sibling),
	}
})

func provider(n int) ids.ProviderID { return ids.ProviderID{1, 15: byte(n)} }

// world is a runner with an edge, a hub and engines.
type world struct {
	t      *testing.T
	view   *offers.View
	runner *flow.Runner
	deps   flow.Deps
	cfg    flow.Config
	edge   *edge
	hub    *hub
	box    *claims.Box
	keys   *keys
	epochs int64
	// revision is the hub's.
	revision uint64
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, view: offers.New(), box: claims.New(func(ids.RequestID) {}), keys: &keys{}}
	w.hub = &hub{handlers: engines(), epochs: map[string]int64{}, files: map[int]string{}}
	w.edge = &edge{t: t, handler: engines()[0], box: w.box}
	w.join(session(0, "node", true, false, model, "fp16"))
	for n, class := range map[int]string{1: "fp16", 2: "bf16", 3: "q4_0"} {
		w.join(session(n, "ref", false, true, model, class))
	}
	w.join(session(4, "ref", false, true, sibling, "fp16"))
	server := httptest.NewServer(w.edge)
	t.Cleanup(server.Close)
	public, err := flow.NewEdge(server.URL, nil, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(public.Close)
	w.cfg = flow.Config{AnswerTimeout: time.Minute, ClaimTimeout: 5 * time.Second, ScoreTimeout: 30 * time.Second}
	client := hubv1.NewChallengeServiceClient(w.hub.serve(t))
	w.deps = flow.Deps{
		Offers: w.view, Edge: public, Keys: w.keys, Writer: writer{}, Claims: w.box, Calibrations: none{}, Earlier: none{},
		Files:    none{},
		Hubs:     peers.Hubs{Dial: func(string) (hubv1.ChallengeServiceClient, error) { return client, nil }},
		Siblings: func(string) string { return sibling },
		Now:      func(context.Context) (time.Time, error) { return start, nil },
		Secret:   secret,
	}
	w.build()
	return w
}

// build makes the runner after a change of its parts.
func (w *world) build() { w.runner = flow.New(w.cfg, w.deps) }

func session(n int, node string, active, reference bool, model, class string) offers.Session {
	return offers.Session{
		Provider: provider(n), Node: node, Active: active, Reference: reference,
		Models: []offers.Model{{ID: model, Healthy: true, Window: 4096, Quantization: class}},
	}
}

// join makes a session known to the hub and in the view.
func (w *world) join(s offers.Session) {
	w.epochs++
	w.revision++
	s.Epoch = w.epochs
	r := offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: w.revision, Sessions: []offers.Session{s}}
	w.hub.mu.Lock()
	if before, known := w.hub.epochs[s.Host()]; known {
		r.Ended = []int64{before}
	}
	w.hub.epochs[s.Host()] = s.Epoch
	w.hub.mu.Unlock()
	w.view.Apply(r, start)
}

// end takes a host's session out of the view.
func (w *world) end(host string) {
	w.revision++
	w.hub.mu.Lock()
	epoch := w.hub.epochs[host]
	delete(w.hub.epochs, host)
	w.hub.mu.Unlock()
	r := offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: w.revision, Ended: []int64{epoch}}
	w.view.Apply(r, start)
}

// plan is a hidden greedy probe of the provider.
func plan(n int) probe.Plan {
	p := probe.Plan{
		ID: probe.ID{2, 15: byte(n)}, Offer: probe.Offer{Provider: provider(0), Model: model}, Kind: probe.Greedy,
		Flow: probe.Hidden, Purpose: probe.Evidence, Greedy: true, PromptTokens: 300, MaxTokens: 96, BytesPerToken: 1,
	}
	p.Stratum.Model, p.Stratum.Class = model, 16
	return p
}

// run carries out a plan that must have a record.
func (w *world) run(p probe.Plan) judge.Record {
	w.t.Helper()
	r, err := w.runner.Run(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// wantVoid and wantBack run a plan that must have no record.
func (w *world) wantVoid(p probe.Plan, why flow.Reason) {
	w.t.Helper()
	_, err := w.runner.Run(w.t.Context(), p)
	var void *flow.Void
	if !errors.As(err, &void) {
		w.t.Fatalf("got the error %v, want a void", err)
	}
	if void.Reason != why {
		w.t.Errorf("void: got %v, want %s", err, why)
	}
}

func (w *world) wantBack(p probe.Plan, why flow.Reason) {
	w.t.Helper()
	_, err := w.runner.Run(w.t.Context(), p)
	var back *flow.GiveBack
	if !errors.As(err, &back) {
		w.t.Fatalf("got the error %v, want it given back", err)
	}
	if back.Reason != why {
		w.t.Errorf("given back: got %v, want %s", err, why)
	}
}

// writer writes prompts of the demo's bank.
type writer struct{}

func (writer) Body(p probe.Plan) ([]byte, []string, error) {
	w := prompt.NewWriter(secret, prompt.Demo())
	if p.Kind == probe.Embedding {
		return fmt.Appendf(nil, `{"input":"text of %s","model":%q}`, p.ID, p.Offer.Model), nil, nil
	}
	messages, err := w.Write(prompt.ID(p.ID), p.Draw, p.PromptTokens/4)
	if err != nil {
		return nil, nil, err
	}
	temperature := 1.0
	if p.Greedy {
		temperature = 0
	}
	body, err := w.Body(prompt.ID(p.ID), messages, prompt.Parameters{
		Model: p.Offer.Model, MaxTokens: p.MaxTokens, Temperature: &temperature, TopLogprobs: p.TopLogprobs,
		Stream: p.Streamed, IncludeUsage: p.Streamed,
	})
	return body, make([]string, len(p.FromEnd)), err
}

// none has no calibrations, no earlier answers and no files.
type none struct{}

func (none) Of(context.Context, probe.Plan) (map[string][]byte, error) { return nil, nil }
func (none) Answer(context.Context, probe.ID) ([]byte, error)          { return nil, nil }
func (none) Files(context.Context, string) ([]flow.File, error)        { return nil, nil }

// keys has one key.
type keys struct {
	mu      sync.Mutex
	refused []house.Key
	err     error
}

func (k *keys) Choose(probe.ID) (house.Key, error) {
	return house.Key{Account: ids.AccountID{3}, ID: ids.KeyID{4}, Text: house.NewText("sk-house-secret")}, k.err
}

func (k *keys) Refused(key house.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused = append(k.refused, key)
}

// edge is the public API in front of one provider: it checks key and pin, and names
// request and provider as the gateway does.
type edge struct {
	t       *testing.T
	handler http.Handler
	box     *claims.Box

	mu    sync.Mutex
	seen  []*http.Request
	conns map[string]bool
	// answer answers in the place of the provider, if it is set.
	answer http.HandlerFunc
	// silent publishes no usage.
	silent bool
	number byte
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.conns == nil {
		e.conns = map[string]bool{}
	}
	e.conns[r.RemoteAddr] = true
	e.seen = append(e.seen, r)
	e.number++
	id, answer := ids.RequestID{5, 15: e.number}, e.answer
	e.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer sk-house-secret" || r.Header.Get("X-Svc-Allow-Fallbacks") != "false" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("X-Svc-Request-Id", id.String())
	w.Header().Set("X-Svc-Provider-Id", r.Header.Get("X-Svc-Provider"))
	// A server that has read a body notices when its client leaves.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if answer == nil {
		answer = e.handler.ServeHTTP
	}
	answer(w, r)
	if !e.silent {
		e.box.Put(id, claims.Claim{Valid: true, Prompt: 11, Output: 22})
	}
}

// says makes the edge answer with a status and a body in the place of the provider.
// served names the provider that serves, empty for none.
func (e *edge) says(status int, body, served string, more ...string) {
	e.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Del("X-Svc-Provider-Id")
		if served != "" {
			w.Header().Set("X-Svc-Provider-Id", served)
		}
		for i := 0; i+1 < len(more); i += 2 {
			w.Header().Set(more[i], more[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// hub is a ChallengeService in front of real engines.
type hub struct {
	hubv1.UnimplementedChallengeServiceServer
	handlers map[int]http.Handler

	mu     sync.Mutex
	epochs map[string]int64
	files  map[int]string // folders by provider
	asked  []*hubv1.RunRequest
	// run answers in the place of the engines, if it is set and returns true.
	run func(*hubv1.RunRequest, grpc.ServerStreamingServer[hubv1.RunResponse]) (bool, error)
}

// serve returns a connection to the hub.
func (h *hub) serve(t *testing.T) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.StreamInterceptor(func(
		srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
	) error {
		return fault.ToStatus(handle(srv, stream))
	}))
	hubv1.RegisterChallengeServiceServer(server, h)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(serving.Wait)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///hub",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.MaxCallSendMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (h *hub) Run(m *hubv1.RunRequest, stream grpc.ServerStreamingServer[hubv1.RunResponse]) error {
	h.mu.Lock()
	h.asked = append(h.asked, m)
	run, epoch := h.run, h.epochs[m.GetProviderId()+"/"+m.GetNodeId()]
	h.mu.Unlock()
	if run != nil {
		if done, err := run(m, stream); done {
			return err
		}
	}
	if epoch != m.GetEpoch() {
		return fault.New(fault.Unavailable, fault.SessionGone, "no such session")
	}
	id, err := ids.ParseProvider(m.GetProviderId())
	if err != nil {
		return err
	}
	if f := m.GetFingerprint(); f != nil {
		return h.fingerprint(int(id[15]), m.GetChallengeId(), f, stream)
	}
	path := "/v1/chat/completions"
	if m.GetInference().GetEndpoint() == hubv1.Endpoint_ENDPOINT_EMBEDDINGS {
		path = "/v1/embeddings"
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(m.GetInference().GetBody())))
	w := httptest.NewRecorder()
	h.handlers[int(id[15])].ServeHTTP(w, r.WithContext(stream.Context()))
	end := hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED
	if w.Code != http.StatusOK {
		end = hubv1.ChallengeEnd_CHALLENGE_END_REFUSED
	}
	return answer(stream, w.Body.Bytes(), &hubv1.ChallengeFinished{End: end, EngineStatus: int32(w.Code), Dialect: "v2"})
}

// fingerprint digests a folder as agents do.
func (h *hub) fingerprint(
	n int, id string, f *hubv1.FingerprintChallenge, stream grpc.ServerStreamingServer[hubv1.RunResponse],
) error {
	c := fingerprint.Challenge{ID: id, Nonce: f.GetNonce(), Blocks: int(f.GetChainLength())}
	for _, r := range f.GetRanges() {
		c.Ranges = append(c.Ranges, fingerprint.Range{File: r.GetFile(), Offset: r.GetOffset(), Length: int(r.GetLength())})
	}
	for _, file := range f.GetChainFiles() {
		c.Files = append(c.Files, fingerprint.File{Name: file.GetFile(), Size: file.GetSize()})
	}
	h.mu.Lock()
	folder := h.files[n]
	h.mu.Unlock()
	result := fingerprint.Answer(stream.Context(), os.DirFS(folder), c)
	raw, err := json.Marshal(map[string]any{
		"challenge_id": id, "digests": result.Digests, "chain_digest": result.Chain, "error": result.Error,
	})
	if err != nil {
		return err
	}
	return answer(stream, raw, &hubv1.ChallengeFinished{
		End: hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, Dialect: "v2", DurationUs: 40_000, RoundTripUs: 1_000,
	})
}

// answer sends bytes in chunks of a tenth of a mebibyte and then the end.
func answer(stream grpc.ServerStreamingServer[hubv1.RunResponse], raw []byte, end *hubv1.ChallengeFinished) error {
	at := int64(0)
	for len(raw) > 0 {
		n := min(len(raw), 100<<10)
		at += 1_000
		err := stream.Send(&hubv1.RunResponse{Message: &hubv1.RunResponse_Chunk{
			Chunk: &hubv1.ChallengeChunk{Data: raw[:n], AtUs: at},
		}})
		if err != nil {
			return err
		}
		raw = raw[n:]
	}
	return stream.Send(&hubv1.RunResponse{Message: &hubv1.RunResponse_Finished{Finished: end}})
}
