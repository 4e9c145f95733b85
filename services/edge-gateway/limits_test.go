package edgegateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// limitOf is the rate that a reading of a category gives. Admission gives another; see
// billing.Admit.
var limitOf = map[string]int32{"llm": 91, "multimodal": 92, "embedding": 93, "image": 94, "audio": 95}

// ReadRate tells a rate by the category.
func (b *billing) ReadRate(ctx context.Context, req *billingv1.ReadRateRequest) (*billingv1.ReadRateResponse, error) {
	b.mu.Lock()
	b.reads++
	unread := b.unread
	b.mu.Unlock()
	if unread != nil {
		return nil, unread(ctx)
	}
	if req.GetKeyId() != "key-1" || limitOf[req.GetCategory()] == 0 {
		return nil, unknownKey()
	}
	return &billingv1.ReadRateResponse{Requests: &billingv1.RateLimit{Limit: limitOf[req.GetCategory()], Remaining: 45,
		ResetMs: 1500}}, nil
}

// readRates lets reads of rates fail so, and returns how many there were.
func (b *billing) readRates(unread func(context.Context) error) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread = unread
	n := b.reads
	b.reads = 0
	return n
}

// readAs are the headers of an answer for which a category's rate was read.
func readAs(category string) map[string]string {
	return map[string]string{
		"X-Ratelimit-Limit-Requests": strconv.Itoa(int(limitOf[category])), "X-Ratelimit-Remaining-Requests": "45",
		"X-Ratelimit-Reset-Requests": "1.5s",
	}
}

var (
	admitted = map[string]string{"X-Ratelimit-Limit-Requests": "200", "X-Ratelimit-Remaining-Requests": "199",
		"X-Ratelimit-Reset-Requests": "30.5s"}
	noRate = map[string]string{"X-Ratelimit-Limit-Requests": "", "X-Ratelimit-Remaining-Requests": "",
		"X-Ratelimit-Reset-Requests": ""}
)

// withRate is a refusal by admission that has the rate.
func withRate(kind fault.Kind, reason fault.Reason) error {
	return fault.New(kind, reason, "no").With("limit", "60").With("remaining", "12").With("reset_ms", "48000")
}

var byAdmission = map[string]string{"X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "12",
	"X-Ratelimit-Reset-Requests": "48s"}

// rated is a request and the rate that its answer shows.
type rated struct {
	name, method, path, body string
	headers                  []string
	admit, sel               error
	allowed                  []string // models of the key; nil for all
	status                   int
	want                     map[string]string
}

// ratedRequests walks every way to be answered under /v1 with a good key.
func ratedRequests(t *testing.T) []rated {
	return append(answeredBeforeAdmission(t), answeredAfterAdmission(t)...)
}

func toModel(id string) string { return strings.Replace(hello, modelID, id, 1) }

// answeredBeforeAdmission are requests that are refused before admission or need none.
func answeredBeforeAdmission(t *testing.T) []rated {
	const chat = "/v1/chat/completions"
	post, get := http.MethodPost, http.MethodGet
	form, kind := formBody(t, "b", field{"model", audioID})
	return []rated{
		{name: "no JSON", method: post, path: chat, body: `{"`, status: 400, want: readAs("llm")},
		{name: "a parameter is missing", method: post, path: chat, body: `{"model":"` + seeingID + `"}`, status: 400,
			want: readAs("llm")},
		{name: "a bad number", method: post, path: chat, body: strings.Replace(toModel(seeingID), "{", `{"n":0,`, 1),
			status: 400, want: readAs("llm")},
		{name: "too much to answer", method: post, path: chat, body: strings.Replace(toModel(seeingID), "{",
			`{"max_tokens":5000,`, 1), status: 400, want: readAs("multimodal")},
		{name: "no embedding's JSON", method: post, path: embeddingsPath, body: `{"`, status: 400, want: readAs("embedding")},
		{name: "no image's JSON", method: post, path: imagesPath, body: `{"`, status: 400, want: readAs("image")},
		{name: "no form", method: post, path: transcriptionsPath, body: hello, status: 400, want: readAs("audio")},
		{name: "a form without file", method: post, path: transcriptionsPath, body: form, headers: []string{"Content-Type",
			kind}, status: 400, want: readAs("audio")},
		{name: "a bad pin", method: post, path: chat, body: hello, headers: []string{"X-Svc-Provider", "x"}, status: 400,
			want: readAs("llm")},
		{name: "a bad idempotency key", method: post, path: chat, body: hello,
			headers: []string{keyed, strings.Repeat("x", 1000)}, status: 400, want: readAs("llm")},
		{name: "another kind of model", method: post, path: chat, body: toModel(embeddingID), status: 400,
			want: readAs("embedding")},
		{name: "a forbidden model", method: post, path: chat, body: toModel(seeingID), allowed: []string{modelID},
			status: 403, want: readAs("multimodal")},
		{name: "an unknown model", method: post, path: chat, body: toModel("none"), status: 404, want: readAs("llm")},
		{name: "an unknown embedder", method: post, path: embeddingsPath, body: strings.Replace(embedHello, embeddingID,
			"none", 1), status: 404, want: readAs("embedding")},
		{name: "an unknown painter", method: post, path: imagesPath, body: strings.Replace(paintHello, imageID, "none", 1),
			status: 404, want: readAs("image")},
		{name: "an unknown route", method: get, path: "/v1/nothing", status: 404, want: readAs("llm")},
		{name: "another API", method: post, path: "/v1/responses", body: hello, status: 404, want: readAs("llm")},
		{name: "a wrong method", method: get, path: embeddingsPath, status: 405, want: readAs("embedding")},
		{name: "too large", method: post, path: chat, body: `{"pad":"` + strings.Repeat("x", 40<<10) + `"}`, status: 413,
			want: readAs("llm")},
		{name: "compressed", method: post, path: chat, body: hello, headers: []string{"Content-Encoding", "gzip"},
			status: 415, want: readAs("llm")},
		{name: "the models", method: get, path: "/v1/models", status: 200, want: readAs("llm")},
		{name: "a model", method: get, path: "/v1/models/" + seeingID, status: 200, want: readAs("multimodal")},
		{name: "no such model", method: get, path: "/v1/models/none", status: 404, want: readAs("llm")},
	}
}

// answeredAfterAdmission are requests that admission or the router refuses, or that are
// served.
func answeredAfterAdmission(t *testing.T) []rated {
	const chat, post = "/v1/chat/completions", http.MethodPost
	speech, kind := formBody(t, "b", speech()...)
	short := fault.New(fault.Precondition, fault.InsufficientCredits, "short")
	return []rated{
		{name: "credit", method: post, path: chat, body: hello, admit: withRate(fault.Precondition,
			fault.InsufficientCredits),
			status: 402, want: byAdmission},
		{name: "plan", method: post, path: chat, body: hello, admit: withRate(fault.Precondition,
			fault.PlanAllowanceExceeded),
			status: 402, want: byAdmission},
		{name: "credit, without a rate", method: post, path: embeddingsPath, body: embedHello, admit: short, status: 402,
			want: readAs("embedding")},
		{name: "audio, without a rate", method: post, path: transcriptionsPath, body: speech,
			headers: []string{"Content-Type", kind},
			admit:   short, status: 402, want: readAs("audio")},
		{name: "frozen", method: post, path: chat, body: hello, admit: withRate(fault.Denied, fault.AccountFrozen),
			status: 403,
			want:   byAdmission},
		{name: "concurrency", method: post, path: chat, body: hello,
			admit: withRate(fault.Exhausted, fault.ConcurrencyLimitExceeded), status: 429, want: byAdmission},
		{name: "rate", method: post, path: chat, body: hello, admit: withRate(fault.Exhausted, fault.RateLimitExceeded),
			status: 429, want: byAdmission},
		{name: "admission down", method: post, path: chat, body: hello, admit: fault.New(fault.Unavailable,
			fault.AdmissionUnavailable, "down"), status: 503, want: readAs("llm")},
		{name: "revoked meanwhile", method: post, path: chat, body: hello, admit: withRate(fault.Unauthenticated,
			fault.KeyRevoked), status: 401, want: noRate},
		{name: "the router before admission", method: post, path: chat, body: toModel(seeingID), admit: short,
			sel: fault.New(fault.Invalid, fault.InvalidProvider, "no"), status: 400, want: readAs("multimodal")},
		{name: "nobody online", method: post, path: chat, body: hello, sel: fault.New(fault.Unavailable,
			fault.NoProviderOnline, "nobody"), status: 503, want: admitted},
		{name: "served", method: post, path: chat, body: hello, status: 200, want: admitted},
		{name: "streamed", method: post, path: chat, body: helloStream, status: 200, want: admitted},
	}
}

func TestEveryAnswerToAGoodKeyHasItsRate(t *testing.T) {
	news := bustest.New(t) // what a fleet in a bubble gives back goes out by it, and nothing comes in
	small := func(t testing.TB) *fleet {
		f := kindsFleet(t, func(c *Config) { c.MaxBodyBytes = 32 << 10 })
		f.svc.deps.Bus = news
		return f
	}
	for _, c := range ratedRequests(t) {
		t.Run(c.name, func(t *testing.T) {
			inBubbleOf(t, small, func(f *fleet, _ func() net.Conn) { c.ask(f) })
		})
	}
}

// ask makes the request of a fleet of its own, in whose time a quarter of a second is
// enough for every rate.
func (c rated) ask(f *fleet) {
	t := f.t.(*testing.T)
	f.keys.set(nil, c.allowed...)
	f.billing.refuse(c.admit)
	if c.sel != nil {
		f.router.refuse(c.sel)
	}
	if c.body == helloStream {
		f.hub.set(streamAnswer)
	}
	resp := f.do(c.method, c.path, c.body, append([]string{"Authorization", "Bearer " + f.key}, c.headers...)...)
	if body := read(t, resp); resp.StatusCode != c.status {
		t.Fatalf("status: got %d, want %d (body is %s)", resp.StatusCode, c.status, body)
	}
	wantHeaders(t, resp.Header, c.want)
	if reads := f.billing.readRates(nil); reads > 0 && c.want["X-Ratelimit-Remaining-Requests"] != "45" {
		t.Errorf("a rate that admission gave was read %d times", reads)
	}
}

// Nor do answers that have no key's rate: answers of the playground, of the public
// catalog, and to browsers that ask in advance.
func TestNoAnswerWithoutAGoodKeyHasARate(t *testing.T) {
	f := withKinds(t, func(c *Config) { c.MaxBodyBytes = 32 << 10 })
	for name, credential := range map[string][]string{
		"none": nil, "wrong": {"Authorization", "Bearer sk-svc-nonsense"}, "twice": {"X-Api-Key", f.key, "X-Api-Key", f.key},
	} {
		for _, c := range ratedRequests(t) {
			resp := f.do(c.method, c.path, c.body, append(credential, c.headers...)...)
			read(t, resp)
			t.Run(name+" "+c.name, func(t *testing.T) { wantHeaders(t, resp.Header, noRate) })
		}
	}
	good := []string{"Authorization", "Bearer " + f.key}
	for _, path := range []string{"/api/v1/models", "/v1/playground/models", "/healthz", "/openapi.json"} {
		wantHeaders(t, f.do(http.MethodGet, path, "", good...).Header, noRate)
	}
	wantHeaders(t, f.do(http.MethodOptions, "/v1/models", "", good...).Header, noRate)
	f.keys.set(fault.New(fault.Unauthenticated, fault.KeyRevoked, "no"))
	wantHeaders(t, f.do(http.MethodGet, "/v1/models", "", good...).Header, noRate)
	f.keys.set(fault.New(fault.Unavailable, fault.ServiceUnavailable, "down"))
	f.svc.auth.Forget("key-1")
	wantHeaders(t, f.do(http.MethodGet, "/v1/models", "", good...).Header, noRate)
	if n := f.billing.readRates(nil); n != 0 {
		t.Errorf("rates read: got %d, want 0", n)
	}
}

// A body of a length that is not said is refused as any other.
func TestTheAnswerToAnOversizedBodyInChunksHasTheRate(t *testing.T) {
	small := func(t testing.TB) *fleet { return newFleet(t, func(c *Config) { c.MaxBodyBytes = 1 << 10 }) }
	inBubbleOf(t, small, func(f *fleet, _ func() net.Conn) {
		t := f.t.(*testing.T)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.base+"/v1/chat/completions",
			struct{ io.Reader }{bytes.NewReader(make([]byte, 2<<10))})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+f.key)
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		wantError(t, resp, http.StatusRequestEntityTooLarge, "request_too_large")
		wantHeaders(t, resp.Header, readAs("llm"))
	})
}

func TestAnAnswerThatIsGivenAgainHasTheRateOfNow(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		t := f.t.(*testing.T)
		first := f.post(hello, keyed, "once")
		read(t, first)
		wantHeaders(t, first.Header, admitted)
		f.wantEnd(billingv1.KeyEnd_KEY_END_ANSWERED)
		again := f.post(hello, keyed, "once")
		read(t, again)
		wantHeaders(t, again.Header, map[string]string{"Idempotency-Replayed": "true"})
		wantHeaders(t, again.Header, readAs("llm"))
		other := f.post(helloStream, keyed, "once")
		wantError(t, other, http.StatusUnprocessableEntity, "idempotency_key_reused")
		wantHeaders(t, other.Header, readAs("llm"))
	})
}

// A refusal waits a quarter of a second for its rate at the most, and a flood of
// them asks for it once.
func TestARefusalDoesNotWaitLongForItsRate(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.billing.readRates(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		bad := strings.Replace(hello, modelID, "none", 1)
		began := time.Now()
		resp := f.post(bad)
		wantError(f.t.(*testing.T), resp, http.StatusNotFound, "model_not_found")
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("refused: got %v, want %v", took, 250*time.Millisecond)
		}
		wantHeaders(t, resp.Header, noRate)
		for range 10 {
			read(t, f.post(bad))
		}
		if took, reads := time.Since(began), f.billing.readRates(nil); took != 250*time.Millisecond {
			t.Errorf("a flood of refusals took: got %v, want %v", took, 250*time.Millisecond)
		} else if reads != 1 {
			t.Errorf("reads: got %d, want 1", reads)
		}
		pass(time.Second)
		resp = f.post(bad)
		read(t, resp)
		wantHeaders(t, resp.Header, readAs("llm"))
	})
}

// Routes that need no key wait a quarter of a second to learn whose key they were sent,
// and ask once while the ledger does not answer. The reading of the rate has a time of
// its own.
func TestKeylessRoutesDoNotFloodALedgerThatHangs(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		models := func() *http.Response {
			resp := f.do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+f.key)
			if body := read(f.t.(*testing.T), resp); resp.StatusCode != http.StatusOK {
				t.Errorf("resp.StatusCode: got %d, want 200 (body is %s)", resp.StatusCode, body)
			}
			return resp
		}
		f.keys.take(time.Hour)
		began := time.Now()
		for range 10 {
			wantHeaders(f.t.(*testing.T), models().Header, noRate)
		}
		if took, asked := time.Since(began), f.keys.take(200*time.Millisecond); took != 250*time.Millisecond {
			t.Errorf("it took: got %v, want %v", took, 250*time.Millisecond)
		} else if asked != 1 {
			t.Errorf("asked: got %d, want 1", asked)
		}
		pass(time.Second)
		f.billing.readRates(func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left < 240*time.Millisecond {
				t.Errorf("the rate is read within: got %v, want at least %v", left, 240*time.Millisecond)
			}
			return fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
		})
		models()
		if asked, reads := f.keys.take(0), f.billing.readRates(nil); asked != 1 {
			t.Errorf("asked: got %d, want 1", asked)
		} else if reads != 1 {
			t.Errorf("reads: got %d, want 1", reads)
		}
	})
}

// Whoever sends a wrong key where none is needed shuts nobody out where one is.
func TestWrongKeysOnKeylessRoutesAreNoGuesses(t *testing.T) {
	f := start(t, func(c *Config) { c.WrongKeys = 2 })
	for range 10 {
		key, err := apikey.Generate(apikey.Consumer, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		wantHeaders(t, f.do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+key).Header, noRate)
	}
	if asked := f.keys.take(0); asked > 4 {
		t.Errorf("keys looked up: got %d, want at most 4", asked)
	}
	resp := f.post(hello)
	if body := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Errorf("a good key: got %d, want 200 (body is %s)", resp.StatusCode, body)
	}
}
