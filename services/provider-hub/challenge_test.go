package providerhub_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	agentv2 "svc.internal/proto/svc/agent/v2"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	providerhub "svc.internal/services/provider-hub"
)

// trial is what came back of a challenge.
type trial struct {
	chunks   []*hubv1.ChallengeChunk
	finished *hubv1.ChallengeFinished
	err      error
}

// text is all that the chunks have.
func (tr trial) text() string {
	var all strings.Builder
	for _, c := range tr.chunks {
		all.Write(c.GetData())
	}
	return all.String()
}

// try runs a challenge to its end.
func (w *world) try(ctx context.Context, r *hubv1.RunRequest) (tr trial) {
	stream, err := w.hub.challenge.Run(ctx, r)
	for err == nil {
		var m *hubv1.RunResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if tr.finished != nil {
			w.t.Errorf("behind the end: got %v, want nothing", m)
		}
		if c := m.GetChunk(); c != nil {
			tr.chunks = append(tr.chunks, proto.CloneOf(c))
		} else {
			tr.finished = proto.CloneOf(m.GetFinished())
		}
	}
	if !errors.Is(err, io.EOF) {
		tr.err = err
	}
	return tr
}

// begin runs a challenge beside the test.
func (w *world) begin(ctx context.Context, r *hubv1.RunRequest) <-chan trial {
	ended := make(chan trial, 1)
	go func() { ended <- w.try(ctx, r) }()
	return ended
}

// finish waits for the end of a challenge that must have one.
func (w *world) finish(ended <-chan trial) trial {
	w.t.Helper()
	select {
	case tr := <-ended:
		must(w.t, tr.err)
		return tr
	case <-time.After(patience):
		w.t.Fatal("the challenge did not end")
		return trial{}
	}
}

func runRequest(m member, node string, epoch int64) *hubv1.RunRequest {
	return &hubv1.RunRequest{ChallengeId: "c-1", ProviderId: m.id, NodeId: node, Epoch: epoch, ModelId: testModel,
		TimeoutMs: 90_000}
}

// inference is a challenge that goes out as a consumer's request does.
func inference(m member, node string, epoch int64, stream bool) *hubv1.RunRequest {
	r := runRequest(m, node, epoch)
	r.Challenge = &hubv1.RunRequest_Inference{Inference: &hubv1.InferenceChallenge{
		Body:   fmt.Appendf(nil, `{"messages":[{"role":"user","content":"hi"}],"model":%q,"stream":%t}`, testModel, stream),
		Stream: stream, Endpoint: hubv1.Endpoint_ENDPOINT_CHAT,
	}}
	return r
}

func fingerprint(m member, node string, epoch int64) *hubv1.RunRequest {
	r := runRequest(m, node, epoch)
	r.Challenge = &hubv1.RunRequest_Fingerprint{Fingerprint: &hubv1.FingerprintChallenge{
		Nonce: make([]byte, 32), Ranges: []*hubv1.FileRange{{File: "model.safetensors", Offset: 4096, Length: 1 << 20}},
		ChainFiles: []*hubv1.ChainFile{{File: "model.safetensors", Size: 1 << 30}}, ChainLength: 256,
	}}
	return r
}

// epochOf is the epoch of the session of an agent of v1, as routers know it.
func (w *v1World) epochOf(a *v1Agent) int64 {
	w.t.Helper()
	return w.told("the session", a.node, func(*eventsv1.Session) bool { return true }).GetEpoch()
}

const fakeNode = "fake-node-1"

func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAnAgentThatServesNobodyIsChallengedAndItsBytesComeAsTheyAre(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, status := range []hubv1.ProviderStatus{
		hubv1.ProviderStatus_PROVIDER_STATUS_PENDING, hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE,
	} {
		m := w.provider(status)
		opened := make(chan *agentv2.Open, 1)
		a := w.dial(m, fakeagent.Options{Handler: func(r *fakeagent.Request) {
			opened <- r.Open
			fakeagent.Answer("Hello", " world")(r)
		}})
		tr := w.finish(w.begin(t.Context(), inference(m, fakeNode, a.Epoch(), true)))
		if end := tr.finished.GetEnd(); end != hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED {
			t.Errorf("%v: got %v, want an answer", status, tr.finished)
		}
		if got := tr.text(); !strings.Contains(got, `"model":"engine-model"`) {
			t.Errorf("%v: got %s, want the engine's own name in it", status, got)
		}
		if got := tr.text(); !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("%v: got %s, want the engine's bytes to their end", status, got)
		}
		open := wait(t, "the request", opened)
		if len(open.GetProof()) != 0 {
			t.Errorf("%v: proof: got %x, want none", status, open.GetProof())
		}
		f := tr.finished
		same(t, "engine status", f.GetEngineStatus(), 200)
		same(t, "dialect", f.GetDialect(), "v2")
		same(t, "the time is told", f.GetSentAt() != nil, true)
		last := int64(0)
		for _, c := range tr.chunks {
			if c.GetAtUs() < last || c.GetAtUs() > f.GetDurationUs() {
				t.Errorf("%v: got a chunk at %d, want it from %d to %d", status, c.GetAtUs(), last, f.GetDurationUs())
			}
			last = c.GetAtUs()
		}
	}
}

func TestAnAgentOfV1IsChallengedWithEveryKind(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_PENDING), fakeagent.V1Options{
		Handler: fakeagent.V1Answer("Hello", " world")})
	epoch := w.epochOf(a)
	deterministic, benchmark := runRequest(a.who, a.node, epoch), runRequest(a.who, a.node, epoch)
	deterministic.Challenge = &hubv1.RunRequest_Deterministic{Deterministic: &hubv1.DeterministicChallenge{
		Prompt: "say hello", Seed: 7, MaxTokens: 16}}
	benchmark.Challenge = &hubv1.RunRequest_Benchmark{Benchmark: &hubv1.BenchmarkChallenge{TestType: "math",
		Prompts: []string{"2+2", "say hello"}}}
	for name, c := range map[string]struct {
		request *hubv1.RunRequest
		chunks  int
		has     string
	}{
		"stream":        {inference(a.who, a.node, epoch, true), 5, `"model":"engine-model"`},
		"whole":         {inference(a.who, a.node, epoch, false), 1, `"model":"engine-model"`},
		"fingerprint":   {fingerprint(a.who, a.node, epoch), 1, `"status":"missing"`},
		"deterministic": {deterministic, 1, `"text":"Hello"`},
		"benchmark":     {benchmark, 1, `"prompt_id":"p2"`},
	} {
		tr := w.finish(w.begin(t.Context(), c.request))
		same(t, name, tr.finished.GetEnd(), hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED)
		same(t, name, tr.finished.GetDialect(), "v1")
		if got := tr.text(); !strings.Contains(got, c.has) {
			t.Errorf("%s: got %s, want %s in it", name, got, c.has)
		}
		same(t, name+": chunks", len(tr.chunks), c.chunks)
	}
	a.alive()
}

func TestAnAgentOfV2GivesDigestsOnlyWhereItSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	digest := sha256.Sum256([]byte("x"))
	a := w.dial(m, fakeagent.Options{Capabilities: []string{"chat", "stream", "fingerprint"},
		Fingerprint: func(c *agentv2.Challenge) *agentv2.ChallengeResult {
			return &agentv2.ChallengeResult{ChallengeId: c.GetChallengeId(), Digests: [][]byte{digest[:]},
				ChainDigest: digest[:]}
		}})
	tr := w.finish(w.begin(t.Context(), fingerprint(m, fakeNode, a.Epoch())))
	got := &agentv2.ChallengeResult{}
	must(t, protojson.Unmarshal([]byte(tr.text()), got))
	want := &agentv2.ChallengeResult{ChallengeId: "c-1", Digests: [][]byte{digest[:]}, ChainDigest: digest[:]}
	same(t, "the result is the agent's", proto.Equal(got, want), true)
	other := w.dial(m, fakeagent.Options{NodeID: "another-node"})
	tr = w.try(t.Context(), fingerprint(m, "another-node", other.Epoch()))
	if f, ok := fault.As(tr.err); !ok {
		t.Errorf("without the capability: got %v, want a fault", tr.err)
	} else {
		same(t, "kind", f.Kind, fault.Precondition)
		same(t, "reason", f.Reason, fault.ChallengeUnsupported)
	}
}

// digestOf is of all files of a folder.
func digestOf(t *testing.T, folder string) (sum [sha256.Size]byte) {
	t.Helper()
	h := sha256.New()
	must(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n", path, len(content))
		_, err = h.Write(content)
		return err
	}))
	h.Sum(sum[:0])
	return sum
}

// A request behind the challenges shows that the journal and the reports would have shown
// them.
func TestAChallengeLeavesNothingInTheJournalAndNoAttempt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	used := w.listen()
	attempts := make(chan *eventsv1.Attempt, 64)
	t.Cleanup(w.subscribe(bus.SubjectAttempts(testHub), func(data []byte) {
		b := &eventsv1.AttemptBatch{}
		if err := proto.Unmarshal(data, b); err != nil {
			t.Error(err)
		}
		for _, a := range b.GetAttempts() {
			attempts <- a
		}
	}))
	m := w.active()
	a := w.dial(m, fakeagent.Options{Capabilities: []string{"chat", "stream", "cancel", "fingerprint"},
		Fingerprint: func(c *agentv2.Challenge) *agentv2.ChallengeResult {
			return &agentv2.ChallengeResult{ChallengeId: c.GetChallengeId(), Error: "none"}
		},
		Handler: func(r *fakeagent.Request) {
			if strings.Contains(string(r.Body), "fail") {
				_ = r.Fail(500, `{"error":{}}`)
				return
			}
			fakeagent.Answer("Hello")(r)
		}})
	before := digestOf(t, w.cfg.JournalDir)
	failing := inference(m, fakeNode, a.Epoch(), false)
	failing.GetInference().Body = fmt.Appendf(nil, `{"model":%q,"fail":true}`, testModel)
	for _, r := range []*hubv1.RunRequest{
		inference(m, fakeNode, a.Epoch(), true), inference(m, fakeNode, a.Epoch(), false), failing,
		fingerprint(m, fakeNode, a.Epoch()),
	} {
		w.finish(w.begin(t.Context(), r))
	}
	if got := digestOf(t, w.cfg.JournalDir); got != before {
		t.Error("the journal: got other bytes behind the challenges, want those before")
	}
	o := order(m, a, true)
	if r := w.call(o).rest(); r.finished == nil {
		t.Fatalf("the request behind them: %v", r.failed)
	}
	if got := digestOf(t, w.cfg.JournalDir); got == before {
		t.Error("the journal: got the same bytes behind the request, want others")
	}
	select {
	case first := <-attempts:
		if want := o.GetRequestId(); first.GetRequestId() != want {
			t.Errorf("the first attempt: got %s, want that of the request, %s", first.GetRequestId(), want)
		}
	case <-time.After(patience):
		t.Fatal("no attempt was reported")
	}
	if u := used.next(1); u.GetRequestId() != o.GetRequestId() {
		t.Errorf("the first usage: got %s, want that of the request, %s", u.GetRequestId(), o.GetRequestId())
	}
	if n := used.count(); n != 1 {
		t.Errorf("usage events: got %d, want 1", n)
	}
}

func TestAChallengeTakesTheOneSlotOfItsProvider(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Capacity: 1})
	ended := w.begin(t.Context(), inference(m, fakeNode, a.Epoch(), true))
	r := received(t, a)
	if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.ProviderBusy) {
		t.Errorf("a request beside it: got %v, want %s", err, fault.ProviderBusy)
	}
	if tr := w.try(t.Context(), inference(m, fakeNode, a.Epoch(), true)); !fault.Is(tr.err, fault.ProviderBusy) {
		t.Errorf("a challenge beside it: got %v, want %s", tr.err, fault.ProviderBusy)
	}
	fakeagent.Answer("x")(r)
	w.finish(ended)
	if err := w.try(t.Context(), inference(m, fakeNode, a.Epoch()+1, true)).err; !fault.Is(err, fault.SessionGone) {
		t.Errorf("another epoch: got %v, want %s", err, fault.SessionGone)
	}
}

func TestAnAgentOfV2IsToldToStopWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	ctx, leave := context.WithCancel(t.Context())
	ended := w.begin(ctx, inference(m, fakeNode, a.Epoch(), true))
	r := received(t, a)
	must(t, r.Role())
	leave()
	wait(t, "the cancel", r.Cancelled())
	if r.Reset() != nil {
		t.Errorf("got %v, want a cancel", r.Reset())
	}
	if tr := wait(t, "the end", ended); tr.err == nil {
		t.Errorf("got %v, want the caller's own error", tr.finished)
	}
}

func TestAConnectionThatBreaksLosesItsChallenge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	ended := w.begin(t.Context(), inference(m, fakeNode, a.Epoch(), true))
	received(t, a)
	a.Kill()
	if tr := w.finish(ended); tr.finished.GetEnd() != hubv1.ChallengeEnd_CHALLENGE_END_LOST {
		t.Errorf("got %v, want it lost", tr.finished)
	}
}

func TestAHubThatStopsEndsItsChallengesWithItsRequests(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	hub := w.hub
	ended := w.begin(t.Context(), inference(m, fakeNode, a.Epoch(), true))
	received(t, a)
	hub.stop()
	wait(t, "the drain of the agent", a.Drained())
	if err := w.try(t.Context(), inference(m, fakeNode, a.Epoch(), true)).err; !fault.Is(err, fault.HubDraining) {
		t.Errorf("one more: got %v, want %s", err, fault.HubDraining)
	}
	if tr := w.finish(ended); tr.finished.GetEnd() != hubv1.ChallengeEnd_CHALLENGE_END_HUB_STOPPED {
		t.Errorf("got %v, want it stopped by the hub", tr.finished)
	}
	w.halt(hub)
}

// An honest agent of v1 answers late, twice, or for another; a dishonest one says what is
// absurd. The connection and the requests on it stay.
func TestV1RepliesToChallengesThatHaveNoneCloseNothing(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	asked := make(chan fakeagent.V1Frame, 4)
	a := w.join(w.active(), fakeagent.V1Options{
		Handler: fakeagent.V1Answer("fine"), Tasks: func(f fakeagent.V1Frame) { asked <- f },
	})
	epoch := w.epochOf(a)
	ctx, leave := context.WithCancel(t.Context())
	left := w.begin(ctx, fingerprint(a.who, a.node, epoch))
	late := wait(t, "the challenge", asked)
	leave()
	wait(t, "the end of the first", left)
	ended := w.begin(t.Context(), fingerprint(a.who, a.node, epoch))
	due := wait(t, "the challenge", asked)
	good := map[string]any{"challenge_id": "c-1", "success": true, "response": map[string]any{"files": []any{}}}
	foreign := map[string]any{"challenge_id": "c-2", "success": true}
	large := map[string]any{"challenge_id": "c-1", "x": strings.Repeat("x", 2<<20)}
	must(t, a.Send("verify", due.RequestID, foreign))
	must(t, a.Send("benchmark_response", due.RequestID, good))
	must(t, a.Send("verify", late.RequestID, large))
	for range 2 {
		must(t, a.Send("verify", late.RequestID, good))
		must(t, a.Send("verify", "nobody", large))
		must(t, a.Send("verify", due.RequestID, good))
	}
	tr := w.finish(ended)
	same(t, "end", tr.finished.GetEnd(), hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED)
	same(t, "chunks", len(tr.chunks), 1)
	ended = w.begin(t.Context(), fingerprint(a.who, a.node, epoch))
	must(t, a.Send("verify", wait(t, "the challenge", asked).RequestID, large))
	if tr := w.finish(ended); tr.finished.GetEnd() != hubv1.ChallengeEnd_CHALLENGE_END_INVALID {
		t.Errorf("a reply of 2 MiB: got %v, want it invalid", tr.finished)
	}
	if r := w.call(w.order(a, true)).rest(); r.finished == nil {
		t.Errorf("a request behind them: %v", r.failed)
	}
	a.alive()
}

func TestAResultThatNobodyAskedForEndsTheConnectionOfV2(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Capabilities: []string{"chat", "fingerprint"}})
	ended := w.begin(t.Context(), fingerprint(m, fakeNode, a.Epoch()))
	c := wait(t, "the challenge", a.Challenges())
	same(t, "id", c.GetChallengeId(), "c-1")
	same(t, "ranges", len(c.GetRanges()), 1)
	same(t, "length of the chain", c.GetChainLength(), 256)
	must(t, a.SendResult(&agentv2.ChallengeResult{ChallengeId: "c-1", Digests: [][]byte{[]byte("short")}}))
	if tr := w.finish(ended); tr.finished.GetEnd() != hubv1.ChallengeEnd_CHALLENGE_END_INVALID {
		t.Errorf("got %v, want it invalid", tr.finished)
	}
	wait(t, "the end of the connection", a.Closed())
	if got := a.Farewell().GetCode(); got != "protocol_error" {
		t.Errorf("code: got %q, want protocol_error", got)
	}
}

func TestTheRoundTripThatPingsMeasuredIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t, func(cfg *hubConfig) { cfg.PingInterval = 5 * time.Millisecond })
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello")})
	w.eventually("a pong was measured", func() error {
		tr := w.finish(w.begin(t.Context(), inference(m, fakeNode, a.Epoch(), false)))
		if tr.finished.GetRoundTripUs() == 0 {
			return errors.New("none was")
		}
		return nil
	})
}

func TestOnlyTheVerifierMayRunChallenges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello")})
	dir := t.TempDir()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	interceptors, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(),
		tracenoop.NewTracerProvider())
	must(t, err)
	credentials := func(service string) *serve.Credentials {
		t.Helper()
		must(t, devcerts.Write(dir, devcerts.Leaf{File: service, Services: []string{service}}))
		creds, err := serve.LoadCredentials(serve.TLSFiles{Cert: devcerts.CertFile(dir, service),
			Key: devcerts.KeyFile(dir, service), CA: filepath.Join(dir, devcerts.CAFile)}, slog.New(slog.DiscardHandler))
		must(t, err)
		return creds
	}
	cfg := serve.GRPCConfig{Interceptors: interceptors, Credentials: credentials(node.ProviderHub),
		Callers: providerhub.Spec(testHub).Callers}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serve.GRPC(ctx, lis, cfg, func(r grpc.ServiceRegistrar) {
			w.hub.service.Register(r)
			grpc_health_v1.RegisterHealthServer(r, health.NewServer())
		})
	}()
	t.Cleanup(func() { stop(); must(t, <-served) })
	for _, service := range append(node.Names(), node.Verifier) {
		conn, err := serve.Dial(serve.Target{Service: node.ProviderHub, Addresses: []string{lis.Addr().String()}},
			interceptors, credentials(service))
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close()) })
		stream, err := hubv1.NewChallengeServiceClient(conn).Run(t.Context(),
			inference(m, fakeNode, a.Epoch(), false))
		must(t, err)
		_, err = stream.Recv()
		f, denied := fault.As(err)
		switch {
		case service == node.Verifier:
			must(t, err)
		case !denied:
			t.Errorf("%s: got %v, want a fault", service, err)
		default:
			same(t, service, f.Kind, fault.Denied)
			same(t, service, f.Reason, fault.CallerNotAllowed)
		}
	}
}
