package edgegateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/telemetry"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// wantError checks the one form of every error.
func wantError(t *testing.T, resp *http.Response, status int, code string) errorBody {
	t.Helper()
	raw := read(t, resp)
	var e errorBody
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		t.Fatalf("status %d, not an error body: %q", resp.StatusCode, raw)
	}
	got := ""
	if e.Error.Code != nil {
		got = *e.Error.Code
	}
	if resp.StatusCode != status || got != code {
		t.Errorf("got %d %s (%s), want %d %s", resp.StatusCode, got, e.Error.Message, status, code)
	}
	wrapped := strings.TrimPrefix(raw, `{"type":"error",`) != raw &&
		strings.HasPrefix(resp.Request.URL.Path, "/v1/messages")
	switch {
	case !wrapped && !strings.HasPrefix(raw, `{"error":{`):
		t.Errorf("the body: raw: got %q, want the prefix %q, where !wrapped", raw, `{"error":{`)
	case e.Error.Message == "":
		t.Error(`the body: e.Error.Message: got "", want some text`)
	case e.Error.Type == "":
		t.Error(`the body: e.Error.Type: got "", want some text`)
	case !strings.Contains(raw, `"param":`):
		t.Errorf("the body: raw: got %q, want %q in it", raw, `"param":`)
	}
	switch {
	case e.RequestID == "":
		t.Error(`request id: got "", want some text`)
	case e.RequestID != resp.Header.Get("X-Svc-Request-ID"):
		t.Errorf("request id: got %q, want %q", e.RequestID, resp.Header.Get("X-Svc-Request-ID"))
	case e.RequestID != resp.Header.Get("X-Request-ID"):
		t.Errorf("request id: got %q, want %q", e.RequestID, resp.Header.Get("X-Request-ID"))
	}
	if resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf(`content type: got %q, want "application/json"`, resp.Header.Get("Content-Type"))
	}
	if strings.HasPrefix(resp.Request.URL.Path, "/v1/") && resp.StatusCode == http.StatusConflict {
		t.Error("409 on /v1 is retried by SDKs")
	}
	return e
}

// postAndLeave posts a completion, waits for its first content if asked to, and
// gives what breaks the connection off.
func (f *fleet) postAndLeave(stream, awaitContent bool) (leave func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	body := hello
	if stream {
		body = helloStream
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.key)
	first, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		resp, err := f.client.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		_, _ = io.ReadFull(resp.Body, make([]byte, 6))
		close(first)
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	if awaitContent {
		awaited(f.t, first)
	}
	return func() {
		cancel()
		awaited(f.t, done)
	}
}

// refusal is an error of admission, of the router, or of both, with the answer to it.
type refusal struct {
	name   string
	admit  error
	sel    error
	status int
	code   string
	header map[string]string
}

var refusals = []refusal{
	{name: "credit", admit: fault.New(fault.Precondition, fault.InsufficientCredits, "short"), status: 402,
		code: "insufficient_credits", header: map[string]string{"X-Should-Retry": "false"}},
	{name: "plan", admit: fault.New(fault.Precondition, "plan_allowance_exceeded", "gone"), status: 402,
		code: "plan_allowance_exceeded", header: map[string]string{"X-Should-Retry": "false"}},
	{name: "model", admit: fault.New(fault.Denied, fault.ModelNotAllowed, "no"), status: 403, code: "model_not_allowed"},
	{name: "frozen", admit: fault.New(fault.Denied, fault.AccountFrozen, "no"), status: 403, code: "account_frozen"},
	{name: "revoked", admit: fault.New(fault.Unauthenticated, fault.KeyRevoked, "no"), status: 401, code: "key_revoked"},
	{name: "unknown", admit: fault.New(fault.NotFound, fault.ModelNotFound, "no"), status: 404, code: "model_not_found"},
	{name: "rate", admit: fault.New(fault.Exhausted, fault.RateLimitExceeded, "slow").After(1500*time.Millisecond).With(
		"limit", "200").With("remaining", "0").With("reset_ms", "1500"), status: 429, code: "rate_limit_exceeded",
		header: map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500", "X-Should-Retry": "",
			"X-Ratelimit-Limit-Requests": "200", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1.5s"}},
	{name: "concurrency", admit: fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded, "slow"), status: 429,
		code: "concurrency_limit_exceeded", header: map[string]string{"Retry-After": "1"}},
	{name: "admission down", admit: fault.New(fault.Unavailable, fault.AdmissionUnavailable, "down"), status: 503,
		code: "admission_unavailable", header: map[string]string{"Retry-After": "1"}},
	{name: "admission broken", admit: fmt.Errorf("pq: secret driver text"), status: 500, code: "internal_error"},
	{name: "nobody online", sel: fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody"), status: 503,
		code: "no_provider_online", header: map[string]string{"Retry-After": "5", "X-Should-Retry": ""}},
	{name: "busy", sel: fault.New(fault.Unavailable, fault.ProvidersBusy, "busy"), status: 503, code: "providers_busy",
		header: map[string]string{"Retry-After": "2"}},
	{name: "pin unavailable", sel: fault.New(fault.Unavailable, fault.RequestedProviderUnavailable, "no"), status: 503,
		code: "requested_provider_unavailable", header: map[string]string{"X-Should-Retry": "false"}},
	{name: "pin unknown", sel: fault.New(fault.Invalid, fault.InvalidProvider, "no"), status: 400,
		code: "invalid_provider"},
	{name: "context", sel: fault.New(fault.Invalid, fault.ContextLengthExceeded, "no").With("max_context_length", "4096"),
		status: 400, code: "context_length_exceeded"},
	{name: "frame", sel: fault.New(fault.Exhausted, fault.RequestTooLarge, "no"), status: 413, code: "request_too_large",
		header: map[string]string{"X-Should-Retry": "false"}},
	{name: "router too slow", sel: fault.New(fault.Timeout, fault.DeadlineExceeded, "slow"), status: 503,
		code: "service_unavailable", header: map[string]string{"Retry-After": "1"}},
	{name: "both, 400 first", admit: fault.New(fault.Precondition, fault.InsufficientCredits, "short"),
		sel: fault.New(fault.Invalid, fault.InvalidProvider, "no"), status: 400, code: "invalid_provider"},
	{name: "both, 402 first", admit: fault.New(fault.Precondition, fault.InsufficientCredits, "short"),
		sel: fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody"), status: 402, code: "insufficient_credits"},
	{name: "both, 401 first", admit: fault.New(fault.Unauthenticated, fault.KeyRevoked, "no"),
		sel: fault.New(fault.Invalid, fault.InvalidProvider, "no"), status: 401, code: "key_revoked"},
	{name: "both, 413 first", admit: fault.New(fault.Unauthenticated, fault.KeyRevoked, "no"),
		sel: fault.New(fault.Exhausted, fault.RequestTooLarge, "no"), status: 413, code: "request_too_large"},
}

func TestEachRefusalOfAdmissionHasItsAnswer(t *testing.T) {
	f := start(t)
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			f.billing.refuse(c.admit)
			f.router.set(nil)
			if c.sel != nil {
				f.router.refuse(c.sel)
			}
			resp := f.post(hello)
			e := wantError(t, resp, c.status, c.code)
			wantHeaders(t, resp.Header, c.header)
			if strings.Contains(e.Error.Message, "secret") {
				t.Errorf(`what the message tells: got %q, want it without "secret"`, e.Error.Message)
			}
			if c.name == "context" && !strings.Contains(e.Error.Message, "4096") {
				t.Errorf(`the numbers in the message: e.Error.Message: got %q, want "4096" in it, where c.name == "context"`,
					e.Error.Message)
			} else if c.name == "context" && !strings.Contains(e.Error.Message, "about 5") {
				t.Errorf(`the numbers in the message: e.Error.Message: got %q, want "about 5" in it, where c.name == "context"`,
					e.Error.Message)
			}
			if c.admit == nil {
				// The hold is given back.
				switch w := f.report(); {
				case w.GetCommittedAttempt() != 0:
					t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 0", w.GetCommittedAttempt())
				case w.GetHttpStatus() != int32(c.status):
					t.Errorf("the request report: w.GetHttpStatus(): got %d, want %d", w.GetHttpStatus(), int32(c.status))
				case w.GetErrorCode() != c.code:
					t.Errorf("the request report: w.GetErrorCode(): got %q, want %q", w.GetErrorCode(), c.code)
				}
				wantHeaders(t, resp.Header, map[string]string{"X-Ratelimit-Remaining-Requests": "199"})
			} else if c.status >= 500 {
				f.report() // it is not known whether there is a hold
			} else {
				noReport(t, f)
			}
		})
	}
}

// 413, 401, 400, 404, 403, 402/429, 503: each request has all faults from one of them on,
// and gets the first.
func TestErrorsHaveTheirPrecedence(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxBodyBytes = 1 << 10 })
	f.keys.set(nil, "another/model")
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
	f.router.refuse(fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody"))
	large := `{"model":"none","messages":5,"pad":"` + strings.Repeat("x", 1<<10) + `"}`
	badKey := "Bearer sk-svc-nonsense"
	send := func(key, body string, chunked bool, headers ...string) *http.Response {
		var reader io.Reader = strings.NewReader(body)
		if chunked {
			reader = struct{ io.Reader }{reader}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.base+"/v1/chat/completions", reader)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", key)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	good := "Bearer " + f.key
	for _, chunked := range []bool{false, true} {
		if chunked {
			// Without a good key a body of unknown length is not read.
			wantError(t, send(badKey, large, chunked, "X-Svc-Provider", "bad"), 401, "invalid_api_key")
		} else {
			wantError(t, send(badKey, large, chunked, "X-Svc-Provider", "bad"), 413, "request_too_large")
		}
		wantError(t, send(good, large, chunked), 413, "request_too_large")
		wantError(t, send(badKey, `{"model":"none"`, chunked, "X-Svc-Provider", "bad"), 401, "invalid_api_key")
		wantError(t, send(good, `{"model":"none"}`, chunked), 400, "missing_required_parameter")
		wantError(t, send(good, strings.Replace(hello, modelID, "none", 1), chunked, "X-Svc-Provider", "bad"),
			400, "invalid_provider")
		wantError(t, send(good, strings.Replace(hello, modelID, "none", 1), chunked), 404, "model_not_found")
		wantError(t, send(good, strings.Replace(hello, "{", `{"max_tokens":5000,`, 1), chunked), 400, "invalid_value")
		wantError(t, send(good, hello, chunked), 403, "model_not_allowed")
	}
	noReport(t, f)
}

func TestPrecedenceHoldsBehindTheKey(t *testing.T) {
	f := start(t)
	f.billing.refuse(fault.New(fault.Exhausted, fault.RateLimitExceeded, "slow"))
	f.router.refuse(fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody"))
	wantError(t, f.post(hello), 429, "rate_limit_exceeded")
	f.billing.refuse(nil)
	wantError(t, f.post(hello), 503, "no_provider_online")
}

func TestARefusalDoesNotWaitForASlowRouter(t *testing.T) {
	f := start(t)
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
	release := make(chan struct{})
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		<-release
		return candidates(providerA), nil
	})
	defer close(release)
	wantError(t, f.post(hello), 402, "insufficient_credits")
}

func TestASlotBookedForARefusedRequestIsGivenBack(t *testing.T) {
	f := start(t)
	heard := make(chan *eventsv1.Attempt, 1)
	sub, err := f.svc.deps.Bus.Subscribe(bus.SubjectAttemptsAll, "", func(_ context.Context, m bus.Message) {
		var batch eventsv1.AttemptBatch
		if proto.Unmarshal(m.Data, &batch) == nil && len(batch.GetAttempts()) == 1 {
			heard <- batch.GetAttempts()[0]
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	}()
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
	wantError(t, f.post(hello), 402, "insufficient_credits")
	select {
	case a := <-heard:
		switch {
		case a.GetProviderId() != providerA:
			t.Errorf("given back: a.GetProviderId(): got %q, want %q", a.GetProviderId(), providerA)
		case a.GetAttempt() != 0:
			t.Errorf("given back: a.GetAttempt(): got %d, want 0", a.GetAttempt())
		case a.GetRequestId() == "":
			t.Error(`given back: a.GetRequestId(): got "", want some text`)
		}
	case <-time.After(time.Minute):
		t.Error("nothing was given back")
	}
}

// Hostile test 1: without, with a wrong, a mistyped, an oversized key, on every
// route that needs one.
func TestKeysAreAskedForWhereTheyAreNeeded(t *testing.T) {
	f := start(t)
	provider, err := apikey.Generate(apikey.Provider, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := apikey.Generate(apikey.Consumer, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	credentials := map[string]struct {
		headers []string
		code    string
	}{
		"none":       {nil, "missing_api_key"},
		"empty":      {[]string{"Authorization", "Bearer "}, "missing_api_key"},
		"basic":      {[]string{"Authorization", "Basic abc"}, "invalid_api_key"},
		"garbage":    {[]string{"Authorization", "Bearer ' OR 1=1 --"}, "invalid_api_key"},
		"oversized":  {[]string{"Authorization", "Bearer " + strings.Repeat("x", 30_000)}, "invalid_api_key"},
		"twice":      {[]string{"Authorization", "Bearer " + f.key, "Authorization", "Bearer " + f.key}, "invalid_api_key"},
		"checksum":   {[]string{"Authorization", "Bearer " + f.key[:len(f.key)-1] + "!"}, "invalid_api_key"},
		"stranger":   {[]string{"Authorization", "Bearer " + stranger}, "invalid_api_key"},
		"provider":   {[]string{"Authorization", "Bearer " + provider}, "wrong_key_type"},
		"x-api-key":  {[]string{"X-Api-Key", stranger}, "invalid_api_key"},
		"both, auth": {[]string{"X-Api-Key", f.key, "Authorization", "Bearer " + stranger}, "invalid_api_key"},
	}
	routes := []struct{ method, path, body string }{
		{http.MethodPost, "/v1/chat/completions", hello},
		{http.MethodPost, "/v1/chat/completions", `{"broken`},
		{http.MethodGet, "/api/v1/requests/01890000-0000-7000-8000-00000000000a", ""},
		{http.MethodGet, "/api/v1/requests/nonsense", ""},
	}
	for name, c := range credentials {
		for _, r := range routes {
			resp := f.do(r.method, r.path, r.body, c.headers...)
			t.Run(name+" "+r.path, func(t *testing.T) {
				wantError(t, resp, 401, c.code)
				wantHeaders(t, resp.Header, map[string]string{"Www-Authenticate": "Bearer", "X-Should-Retry": "false"})
			})
		}
		for _, path := range []string{"/v1/models", "/v1/models/" + modelID, "/api/v1/models", "/healthz", "/readyz"} {
			if resp := f.do(http.MethodGet, path, "", c.headers...); resp.StatusCode != 200 {
				t.Errorf("%s with credential %q: got %d, want 200", path, name, resp.StatusCode)
			}
		}
	}
	if resp := f.do(http.MethodPost, "/v1/chat/completions", hello, "X-Api-Key", f.key); resp.StatusCode != 200 {
		t.Errorf("x-api-key: got %d, want 200", resp.StatusCode)
	}
	if resp := f.do(http.MethodPost, "/v1/chat/completions", hello, "Authorization",
		"bearer  "+f.key); resp.StatusCode != 200 {
		t.Errorf("bearer in lower case: got %d, want 200", resp.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestUnknownRoutesAndMethodsAreJSON(t *testing.T) {
	f := start(t)
	cases := []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/", 404, "unknown_route"},
		{"GET", "/v1", 404, "unknown_route"},
		{"GET", "/v1/", 404, "unknown_route"},
		{"GET", "/v1/models/", 404, "unknown_route"},
		{"GET", "/v1//models", 404, "unknown_route"},
		{"GET", "/v1/../v1/models", 404, "unknown_route"},
		{"POST", "/v1/chat/completions/", 404, "unknown_route"},
		{"GET", "/v1/chat/completions", 405, "method_not_allowed"},
		{"DELETE", "/v1/models", 405, "method_not_allowed"},
		{"POST", "/v1/models/x", 405, "method_not_allowed"},
		{"POST", "/api/v1/models", 405, "method_not_allowed"},
		{"GET", "/api/v1/models/", 404, "unknown_route"},
		{"GET", "/api/v1/models/x", 404, "model_not_found"},
		{"GET", "/api/v1/models/x/y/z", 404, "model_not_found"},
		{"GET", "/api/v1/models/' OR 1=1", 404, "model_not_found"},
		{"GET", "/api/v1/models/" + strings.Repeat("x", 300), 404, "model_not_found"},
		{"POST", "/api/v1/models/x", 405, "method_not_allowed"},
		{"POST", "/v1/responses", 404, "unknown_route"},
		{"POST", "/v1/messages", 404, "unknown_route"},
		{"POST", "/v1/messages/count_tokens", 404, "unknown_route"},
		{"GET", "/metrics", 404, "unknown_route"},
		{"GET", "/debug/pprof/", 404, "unknown_route"},
		{"GET", "/v1/models/none", 404, "model_not_found"},
		{"GET", "/v1/models/' OR 1=1", 404, "model_not_found"},
		{"GET", "/v1/models/" + strings.Repeat("x", 300), 404, "model_not_found"},
		{"GET", "/api/v1/models/none/providers", 404, "model_not_found"},
		{"BREW", "/v1/models", 405, "method_not_allowed"},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.path[:min(len(c.path), 40)], func(t *testing.T) {
			resp := f.do(c.method, strings.ReplaceAll(c.path, " ", "%20"), "")
			e := wantError(t, resp, c.status, c.code)
			if c.status == 405 && resp.Header.Get("Allow") == "" {
				t.Error("Allow is missing")
			}
			if strings.HasPrefix(c.path, "/v1/messages") && !strings.Contains(e.Error.Message, "/v1/chat/completions") {
				t.Errorf("the message does not help: %s", e.Error.Message)
			}
		})
	}
	// A forged host changes nothing.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "127.0.0.1:9090"
	req.Header.Set("X-Forwarded-Host", "localhost")
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wantError(t, resp, 404, "unknown_route")
}

func TestBodiesOfOtherFormsAreRefused(t *testing.T) {
	f := start(t)
	for _, encoding := range []string{"gzip", "br", "zstd", "deflate", "identity, gzip", "GZIP"} {
		wantError(t, f.post(hello, "Content-Encoding", encoding), 415, "unsupported_encoding")
	}
	wantError(t, f.post(hello, "Content-Type", "multipart/form-data; boundary=x"), 400, "invalid_request")
	for _, kind := range []string{"", "application/json", "text/plain", "application/x-www-form-urlencoded"} {
		if resp := f.post(hello, "Content-Type", kind, "Content-Encoding", "identity"); resp.StatusCode != 200 {
			t.Errorf("content type %q: got %d, want 200", kind, resp.StatusCode)
		}
	}
}

func TestAModelOfAnotherKindIsRefused(t *testing.T) {
	f := newFleet(t)
	f.catalog.models = append(f.catalog.models, &catalogv1.Model{
		ModelId: "embed", Active: true, Category: catalogv1.Category_CATEGORY_EMBEDDING, ContextLength: 512,
	}, &catalogv1.Model{ModelId: "retired", Category: catalogv1.Category_CATEGORY_LLM, ContextLength: 512})
	f.loops()
	f.listen()
	e := wantError(t, f.post(strings.Replace(hello, modelID, "embed", 1)), 400, "unsupported_endpoint_for_model")
	if e.Error.Param == nil {
		t.Error("param: got nil, want a value")
	} else if *e.Error.Param != "model" {
		t.Errorf(`*e.Error.Param: got %q, want "model"`, *e.Error.Param)
	}
	wantError(t, f.post(strings.Replace(hello, modelID, "retired", 1)), 404, "model_not_found")
}

func TestPinHeadersAreCheckedAndNeverReflected(t *testing.T) {
	f := start(t)
	for _, pin := range []string{"x", "'; DROP TABLE", "../..", providerA + "0", "00000000-0000-0000-0000-000000000000",
		"\u00e9"} {
		resp := f.post(hello, "X-Svc-Provider", pin)
		if e := wantError(t, resp, 400, "invalid_provider"); strings.Contains(e.Error.Message, pin) && pin != "x" {
			t.Errorf("the pin is repeated: %s", e.Error.Message)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Requested-Provider": "", "X-Svc-Route-Mode": "explicit"})
	}
	wantError(t, f.post(hello, "X-Svc-Provider", providerA, "X-Svc-Provider", providerB), 400, "invalid_provider")
	f.router.refuse(fault.New(fault.Invalid, fault.InvalidProvider, "no").On("X-Svc-Provider"))
	if e := wantError(t, f.post(hello, "X-Svc-Provider", providerA), 400, "invalid_provider"); e.Error.Param == nil {
		t.Error("the param of an unknown provider: got nil, want a value")
	} else if *e.Error.Param != "X-Svc-Provider" {
		t.Errorf(`the param of an unknown provider: *e.Error.Param: got %q, want "X-Svc-Provider"`, *e.Error.Param)
	}
	f.router.set(nil)
	for _, allow := range []string{"yes", "", "0", "truefalse"} {
		wantError(t, f.post(hello, "X-Svc-Allow-Fallbacks", allow), 400, "invalid_value")
	}
	if resp := f.post(hello, "X-Svc-Allow-Fallbacks", "FALSE"); resp.StatusCode != 200 {
		t.Errorf("without a pin fallbacks mean nothing: resp.StatusCode: got %d, want 200", resp.StatusCode)
	} else if resp.Header.Get("X-Svc-Route-Mode") != "auto" {
		t.Errorf(`without a pin fallbacks mean nothing: resp.Header.Get("X-Svc-Route-Mode"): got %q, want "auto"`,
			resp.Header.Get("X-Svc-Route-Mode"))
	}
}

// Hostile test 58 for this service: what must not be logged is not.
func TestTheLogHoldsNoSecrets(t *testing.T) {
	f := surfaceFleet(t)
	canary := "canary-7f3a"
	body := strings.Replace(hello, "Say hello", canary, 1)
	read(t, f.post(body))
	read(t, f.post(strings.Replace(body, modelID, canary, 1)))
	read(t, f.post(`{"model":"`+canary))
	f.hub.set(failing(&hubFailed))
	read(t, f.post(body))
	f.billing.refuse(fmt.Errorf("boom"))
	read(t, f.post(body))
	read(t, f.do(http.MethodGet, "/v1/models?key="+canary, "", "Authorization", "Bearer "+canary))
	read(t, f.do(http.MethodGet, "/api/v1/admin/accounts/x", "", "Authorization", "Bearer "+canary))
	read(t, f.do(http.MethodGet, "/"+canary, ""))
	cookie := f.session()
	for range 2 { // in the session, and outside of any
		read(t, f.do(http.MethodPost, "/v1/playground/chat?q="+canary, body, "Sec-Fetch-Site", "same-origin", "User-Agent",
			canary, "Cookie", cookie))
		cookie = "svc_playground=" + canary
	}
	text := f.log.String()
	for _, secret := range []string{canary, f.key, adminToken} {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds %q:\n%s", secret, text)
		}
	}
	for _, want := range []string{"route=/v1/chat/completions", "model=" + modelID, "provider=" + providerA, "status=500",
		"route=unknown", "route=/v1/playground/chat"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
}

// What the patch adds counts too: a hub takes no more than the limit either.
func TestTheLimitHoldsForWhatIsSentOn(t *testing.T) {
	bounded := strings.Replace(helloStream, "{", `{"max_tokens":9,`, 1)
	f := start(t, func(c *Config) { c.MaxBodyBytes = int64(len(bounded)) })
	if resp := f.post(strings.Replace(bounded, "true", " null", 1)); resp.StatusCode != 413 {
		t.Errorf("one byte too many: got %d, want 413", resp.StatusCode)
	}
	if resp := f.post(strings.Replace(bounded, "true", "null", 1)); resp.StatusCode != 200 {
		t.Errorf("at the limit: got %d, want 200", resp.StatusCode)
	}
	wantError(t, f.post(bounded), 413, "request_too_large") // usage is asked for
	unbounded := strings.Replace(bounded, `"max_tokens":9,`, `"x":1234567890,`, 1)
	wantError(t, f.post(strings.Replace(unbounded, "true", "null", 1)), 413, "request_too_large")
}

func TestAPanicIsAnInternalErrorAndNothingMore(t *testing.T) {
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerA)
		resp.Candidates[0].DispatchAddress = "panic"
		return resp, nil
	})
	wantError(t, f.post(hello), 500, "internal_error")
	if text := f.log.String(); !strings.Contains(text, "level=ERROR") {
		t.Errorf(`the stack in the log: text: got %q, want "level=ERROR" in it`, text)
	} else if !strings.Contains(text, "setup_peers_test.go") {
		t.Errorf(`the stack in the log: text: got %q, want "setup_peers_test.go" in it`, text)
	}
	f.router.set(nil)
	if resp := f.post(hello); resp.StatusCode != 200 {
		t.Errorf("the next request: got %d, want 200", resp.StatusCode)
	}
}

func TestAnUnknownHubIsAnAttemptThatFailed(t *testing.T) {
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerA, providerB)
		resp.Candidates[0].DispatchAddress = "nowhere"
		return resp, nil
	})
	f.hub.set(wholeAnswer)
	if resp := f.post(hello); resp.StatusCode != 200 {
		t.Errorf("status: got %d, want 200", resp.StatusCode)
	} else if resp.Header.Get("X-Svc-Attempts") != "2" {
		t.Errorf(`resp.Header.Get("X-Svc-Attempts"): got %q, want "2"`, resp.Header.Get("X-Svc-Attempts"))
	}
	if w := f.report(); w.GetAttempts()[0].GetResult() != "unavailable" {
		t.Errorf(`the request report: got %q, want "unavailable"`, w.GetAttempts()[0].GetResult())
	}
}

func TestTheClientsTraceIsContinuedOnlyWhereClientsAreTrusted(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, trusted := range []bool{true, false} {
		f := start(t, func(c *Config) { c.TrustTraceContext = trusted })
		seen := make(chan string, 1)
		f.hub.set(func(p *played) error {
			seen <- telemetry.Traceparent(p.stream.Context())
			return wholeAnswer(p)
		})
		read(t, f.post(hello, "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01"))
		if got := awaited(t, seen); strings.Contains(got, trace) != trusted {
			t.Errorf("a client trusted=%t: the hub saw: got %t, want %t", trusted, strings.Contains(got, trace), trusted)
		}
	}
}
