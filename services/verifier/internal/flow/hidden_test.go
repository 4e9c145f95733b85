package flow_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
)

type (
	runRequest = hubv1.RunRequest
	runStream  = grpc.ServerStreamingServer[hubv1.RunResponse]
)

type earlier struct{ raw []byte }

func (e earlier) Answer(context.Context, probe.ID) ([]byte, error) { return e.raw, nil }

type brokenWriter struct{}

func (brokenWriter) Body(probe.Plan) ([]byte, []string, error) { return nil, nil, errors.New("broken") }

func failure(code string) string {
	return fmt.Sprintf(`{"error":{"message":"It failed.","type":"server_error","param":null,"code":%q}}`, code)
}

// refusals are answers of the edge, each with the party whose fault it is.
var refusals = map[string]struct {
	status int
	code   string
	served string
	more   []string
	back   flow.Reason
	void   flow.Reason
}{
	"a key that is revoked":     {status: 401, code: "key_revoked", back: flow.NoAccount},
	"no credit":                 {status: 402, code: "insufficient_credits", back: flow.NoAccount},
	"a frozen account":          {status: 403, code: "account_frozen", back: flow.NoAccount},
	"too many requests":         {status: 429, code: "rate_limit_exceeded", back: flow.Limited},
	"an internal error":         {status: 500, code: "internal_error", back: flow.PlatformDown},
	"a proxy before the edge":   {status: 502, back: flow.PlatformDown},
	"a service that is away":    {status: 503, code: "service_unavailable", back: flow.PlatformDown},
	"nobody to admit":           {status: 503, code: "admission_unavailable", back: flow.PlatformDown},
	"a redirect":                {status: 307, more: []string{"Location", "https://a.org/"}, back: flow.PlatformDown},
	"a time-out of the edge":    {status: 504, code: "timeout", back: flow.PlatformDown},
	"a pin that is unavailable": {status: 503, code: "requested_provider_unavailable", void: flow.Unavailable},
	"nobody online":             {status: 503, code: "no_provider_online", void: flow.Unavailable},
	"no slot":                   {status: 503, code: "providers_busy", void: flow.Unavailable},
	"above the window":          {status: 400, code: "context_length_exceeded", void: flow.TooLongForEdge},
	"above the body's bound":    {status: 413, code: "request_too_large", void: flow.TooLongForEdge},
	"no such model":             {status: 404, code: "model_not_found", void: flow.BadPlan},
	"a request that is wrong":   {status: 400, code: "invalid_value", void: flow.BadPlan},
	"an engine's refusal of another provider": {
		status: 400, code: "x", served: provider(1).String(), void: flow.BadPlan,
	},
	"an engine's refusal":      {status: 400, code: "x", served: provider(0).String()},
	"an engine's own 429":      {status: 429, code: "x", served: provider(0).String()},
	"a provider that failed":   {status: 502, code: "requested_provider_failed"},
	"a stream that broke":      {status: 502, code: "upstream_error"},
	"a provider out of time":   {status: 504, code: "timeout", more: []string{"X-Svc-Attempts", "1"}},
	"a prompt that is refused": {status: 400, code: "context_length_exceeded", served: provider(0).String()},
}

// Each answer of the edge has one party whose fault it is.
func TestRefusalsOfTheEdgeAreTold(t *testing.T) {
	t.Parallel()
	mine := provider(0).String()
	for name, tc := range refusals {
		w := setup(t)
		body := ""
		if tc.code != "" {
			body = failure(tc.code)
		}
		w.edge.says(tc.status, body, tc.served, tc.more...)
		switch {
		case tc.back != "":
			w.wantBack(plan(1), tc.back)
		case tc.void != "":
			w.wantVoid(plan(1), tc.void)
		default:
			r := w.run(plan(1))
			if want := tc.status >= 500; r.Answer.Failed != want {
				t.Errorf("%s: failed: got %v, want %v", name, r.Answer.Failed, want)
			}
			if want := tc.code == "context_length_exceeded"; r.Answer.TooLong != want {
				t.Errorf("%s: too long: got %v, want %v", name, r.Answer.TooLong, want)
			}
			if r.Answer.Complete {
				t.Errorf("%s: complete: got true, want false", name)
			}
			if got := r.Answer.Served; got != mine {
				t.Errorf("%s: served by: got %q, want %q", name, got, mine)
			}
		}
		if got, want := len(w.keys.refused), 0; (tc.status == 401) != (got != want) {
			t.Errorf("%s: refused keys: got %d", name, got)
		}
		if got := len(w.edge.seen); got != 1 {
			t.Errorf("%s: requests: got %d, want 1", name, got)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.edge.answer = func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "/v1/other", http.StatusTemporaryRedirect)
	}
	w.wantBack(plan(1), flow.PlatformDown)
	if got := len(w.edge.seen); got != 1 {
		t.Errorf("requests: got %d, want 1", got)
	}
}

func TestWithoutAKeyTheProbeIsGivenBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.keys.err = house.ErrNoKey
	w.wantBack(plan(1), flow.NoAccount)
}

func TestAnotherProvidersAnswerIsToldByItsName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, served := range []string{provider(1).String(), "", "not an id"} {
		w.edge.says(200, `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`, served)
		r := w.run(plan(1))
		if got := r.Answer.Served; got == provider(0).String() {
			t.Errorf("served by %q: got %q", served, got)
		}
		if got := len(r.Scores); got != 0 {
			t.Errorf("served by %q: got %d scores, want none", served, got)
		}
	}
}

const chunk = `data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"

// streamed makes the edge answer with the events that write sends.
func (e *edge) streamed(write func(send func(string) bool)) {
	e.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		write(func(text string) bool {
			if _, err := w.Write([]byte(text)); err != nil || r.Context().Err() != nil {
				return false
			}
			w.(http.Flusher).Flush()
			return true
		})
	}
}

func TestAStreamIsWholeOnlyWithItsEnd(t *testing.T) {
	t.Parallel()
	const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	const done = "data: [DONE]\n\n"
	for name, tc := range map[string]struct {
		text             string
		complete, failed bool
	}{
		"whole":                   {chunk + finish + done, true, false},
		"with comments":           {": keep-alive\n\n" + chunk + finish + done, true, false},
		"without the end":         {chunk + finish, false, false},
		"without a reason":        {chunk + done, false, false},
		"nothing":                 {"", false, false},
		"with an error of ours":   {chunk + "data: " + failure("internal_error") + "\n\n", false, false},
		"with the provider's":     {chunk + "data: " + failure("upstream_error") + "\n\n", false, true},
		"malformed":               {chunk + "data: {]\n\n" + finish + done, false, false},
		"an error behind the end": {chunk + finish + done + "data: " + failure("x") + "\n\n", false, false},
	} {
		w := setup(t)
		w.edge.streamed(func(send func(string) bool) { send(tc.text) })
		p := plan(1)
		p.Streamed = true
		r := w.run(p)
		if got := r.Answer.Complete; got != tc.complete {
			t.Errorf("%s: complete: got %v, want %v", name, got, tc.complete)
		}
		if got := r.Answer.Failed; got != tc.failed {
			t.Errorf("%s: failed: got %v, want %v", name, got, tc.failed)
		}
	}
}

// An endless stream ends at the bound, and a left one at once.
func TestAnEndlessStreamIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var sent atomic.Int64
	ended := make(chan struct{}, 1)
	w.edge.streamed(func(send func(string) bool) {
		for send(strings.Repeat(chunk, 2_000)) {
			sent.Add(int64(2_000 * len(chunk)))
		}
		ended <- struct{}{}
	})
	p := plan(1)
	p.Streamed = true
	r := w.run(p)
	hasEnded(t, ended)
	if got, want := len(r.Answer.Raw), flow.AnswerBytes(p); got != want {
		t.Errorf("bytes: got %d, want %d", got, want)
	}
	if r.Answer.Complete {
		t.Error("complete: got true, want false")
	}
	if got := len(r.Answer.Chunks); got > 8_192 {
		t.Errorf("chunks: got %d, want at most 8192", got)
	}
	p.HangUp = 3
	r = w.run(p)
	hasEnded(t, ended)
	if got := len(r.Answer.Raw); got > 1<<20 {
		t.Errorf("bytes of a stream that is left: got %d, want few", got)
	}
	if !bytes.HasSuffix(r.Answer.Raw, []byte("\n\n")) {
		t.Error("a stream that is left: got a part of an event at its end")
	}
	if r.Answer.Failed {
		t.Error("a stream that is left: got failed, want not")
	}
}

func TestABombOfGzipIsBounded(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 200 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	w := setup(t)
	w.edge.says(200, bomb.String(), provider(0).String(), "Content-Encoding", "gzip")
	r := w.run(plan(1))
	if got, want := len(r.Answer.Raw), flow.AnswerBytes(plan(1)); got != want {
		t.Errorf("bytes: got %d, want %d", got, want)
	}
	if r.Answer.Complete {
		t.Error("complete: got true, want false")
	}
	w.edge.says(502, bomb.String(), "", "Content-Encoding", "gzip")
	w.wantBack(plan(1), flow.PlatformDown)
	w.edge.says(200, "x", provider(0).String(), "Content-Encoding", "br")
	w.wantBack(plan(1), flow.PlatformDown)
	w.edge.says(200, "no gzip", provider(0).String(), "Content-Encoding", "gzip")
	if r := w.run(plan(1)); r.Answer.Complete {
		t.Error("what is no gzip: got complete, want not")
	}
}

func TestACompressedAnswerIsRead(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	const body = `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`
	_, _ = z.Write([]byte(body))
	_ = z.Close()
	w := setup(t)
	w.edge.says(200, packed.String(), provider(0).String(), "Content-Encoding", "gzip")
	if got := string(w.run(plan(1)).Answer.Raw); got != body {
		t.Errorf("the answer: got %q, want %q", got, body)
	}
}

// hasEnded waits until a peer's answer has ended.
func hasEnded(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("the peer was not left")
	}
}

// A drip that never ends is left when its time is over.
func TestASlowDripEndsWithItsTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.AnswerTimeout = 3 * time.Second
	w.build()
	ended := make(chan struct{})
	w.edge.answer = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte(chunk))
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}
	p := plan(1)
	p.Streamed = true
	r := w.run(p)
	hasEnded(t, ended)
	if r.Answer.Complete {
		t.Error("complete: got true, want false")
	}
	if got := string(r.Answer.Raw); got != chunk {
		t.Errorf("the answer: got %q, want what came", got)
	}
	if r.Answer.Cut != judge.Slow {
		t.Errorf("cut because it was %q, want %q", r.Answer.Cut, judge.Slow)
	}
}

func TestAnAnswerWithoutAnEndIsCutWhereItIsTooLarge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.edge.answer = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := rw.Write([]byte(chunk)); err != nil {
				return
			}
		}
	}
	p := plan(1)
	p.Streamed = true
	r := w.run(p)
	if r.Answer.Cut != judge.Large {
		t.Errorf("cut because it was %q, want %q", r.Answer.Cut, judge.Large)
	}
	if got, want := len(r.Answer.Raw), flow.AnswerBytes(p); got != want {
		t.Errorf("bytes that are kept: got %d, want %d", got, want)
	}
}

func TestAnAnswerThatNobodyCutSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if r := w.run(plan(1)); r.Answer.Cut != "" {
		t.Errorf("a whole answer: cut because it was %q, want no cut", r.Answer.Cut)
	}
	w.edge.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte(chunk))
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	p := plan(2)
	p.Streamed = true
	if r := w.run(p); r.Answer.Cut != "" {
		t.Errorf("a lost connection: cut because it was %q, want no cut", r.Answer.Cut)
	}
}

// An answer that is not streamed begins with its end. A provider that keeps it back must not
// be asked three times, each time for as long.
func TestAnAnswerThatNeverBeginsIsARecordThatProvesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.AnswerTimeout = 200 * time.Millisecond
	w.build()
	w.edge.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	r := w.run(plan(1))
	if r.Answer.Complete {
		t.Error("complete: got true, want false")
	}
	if r.Answer.Failed {
		t.Error("failed: got true, want false: it may be the platform's fault")
	}
	j, err := judge.Judge(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(j.Observations); n != 0 {
		t.Errorf("observations: got %d, want 0", n)
	}
}

func TestAProbeThatIsStoppedIsGivenBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.runner.Run(ctx, plan(1))
	var back *flow.GiveBack
	if !errors.As(err, &back) {
		t.Fatalf("a probe that is stopped: got %v, want it given back", err)
	}
	if back.Reason != flow.Stopped {
		t.Errorf("a probe that is stopped: got %s, want %s", back.Reason, flow.Stopped)
	}
}

func TestAClaimThatNeverComesCostsFamilyUAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.ClaimTimeout = 10 * time.Millisecond
	w.build()
	w.edge.silent = true
	r := w.run(plan(1))
	if r.Answer.Claimed {
		t.Error("claimed: got true, want false")
	}
	if !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
}

// Requests look like those of their body's client, and the account's connections are used
// again.
func TestRequestsLookLikeThoseOfTheirClient(t *testing.T) {
	t.Parallel()
	w := setup(t)
	agents := map[string]int{}
	w.edge.says(200, "", "") // nothing to be scored
	for n := range 60 {
		r := w.run(plan(n))
		h := w.edge.seen[len(w.edge.seen)-1].Header
		agent, _, _ := strings.Cut(h.Get("User-Agent"), " ")
		agents[agent]++
		if python := bytes.HasPrefix(r.Request, []byte(`{"messages"`)); python != strings.HasPrefix(agent, "OpenAI/Python") {
			t.Errorf("a body that begins %.20q: got the client %q", r.Request, h.Get("User-Agent"))
		}
		if indented := r.Request[1] == '\n'; indented != strings.HasPrefix(agent, "curl/") {
			t.Errorf("a body that begins %.20q: got the client %q", r.Request, h.Get("User-Agent"))
		}
		for name := range h {
			if !known[name] && !strings.HasPrefix(name, "X-Stainless-") {
				t.Errorf("the header %s: got it from us, want none that no client sends", name)
			}
		}
	}
	if len(agents) < 4 {
		t.Errorf("clients: got %v, want four", agents)
	}
	if got := len(w.edge.conns); got > 4 {
		t.Errorf("connections of one account: got %d, want one a client", got)
	}
}

// known are the headers of clients, and those of routing that any consumer may send.
var known = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Authorization": true, "Connection": true, "Content-Length": true,
	"Content-Type": true, "User-Agent": true, "X-Svc-Provider": true, "X-Svc-Allow-Fallbacks": true,
}

func TestOnlyLoopbackIsAskedWithoutTLS(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://api.example.org": true, "https://api.example.org/base": true, "http://127.0.0.1:8080": true,
		"http://[::1]:8080": true, "http://localhost:8080": true,
		"http://api.example.org": false, "http://10.0.0.1": false, "ftp://127.0.0.1": false, "": false, "127.0.0.1": false,
		"https://user@api.example.org": false, "https://api.example.org?x=1": false, "http://127.0.0.1.example.org": false,
	} {
		if _, err := flow.NewEdge(address, nil, secret); (err == nil) != ok {
			t.Errorf("%q: got the error %v, want none: %v", address, err, ok)
		}
	}
}

func TestErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.edge.says(400, `{"error":{"message":"the prompt was sk-house-secret","code":"it was sk-house-secret"}}`, "")
	_, err := w.runner.Run(t.Context(), plan(1))
	if err == nil {
		t.Fatal("got no error, want one")
	}
	if text := err.Error(); strings.Contains(text, "sk-house") {
		t.Errorf("the error: got %q, want it without the engine's words", text)
	}
	key, _ := w.keys.Choose(probe.ID{})
	if got := fmt.Sprintf("%v %+v %#v %s", key, key, key, key.Text); strings.Contains(got, "sk-house") {
		t.Errorf("a key, printed: got %q", got)
	}
}
