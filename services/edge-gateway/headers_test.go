package edgegateway

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

func TestAModelOnItsWayOutSaysWhenItLeaves(t *testing.T) {
	f := newFleet(t)
	leaves := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	old := proto.Clone(testModel()).(*catalogv1.Model)
	old.ModelId, old.Slug, old.DeprecatedAt = "old", "", timestamppb.New(leaves)
	f.catalog.models = append(f.catalog.models, old)
	f.start()
	said := map[string]string{"Deprecation": "@" + strconv.FormatInt(leaves.Unix(), 10),
		"Sunset": "Mon, 01 Mar 2027 12:00:00 GMT"}
	silent := map[string]string{"Deprecation": "", "Sunset": ""}
	toOld := strings.Replace(hello, modelID, "old", 1)

	wantHeaders(t, f.post(toOld).Header, said)
	wantHeaders(t, f.post(hello).Header, silent)
	wantHeaders(t, f.do(http.MethodGet, "/v1/models/old", "").Header, said)
	wantHeaders(t, f.do(http.MethodGet, "/v1/models/"+modelID, "").Header, silent)
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
	wantHeaders(t, f.post(toOld).Header, said)
	f.billing.refuse(nil)

	// It is the model that serves that is spoken of.
	f.hub.byModel(map[string]func(*played) error{"old": failing(upstreamFailed()), modelID: wholeAnswer})
	resp := f.post(strings.Replace(withModels(modelID), `"model":"`+modelID, `"model":"old`, 1))
	if body := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp.StatusCode: got %d, want 200 (body is %v)", resp.StatusCode, body)
	}
	wantHeaders(t, resp.Header, silent)
}

// What is known when a request fails is said, wherever it fails.
func TestErrorsCarryWhatIsKnown(t *testing.T) {
	f := start(t)
	known := map[string]string{
		"X-Svc-Route-Mode": "auto", "X-Svc-Billing-Type": "payg", "X-Ratelimit-Limit-Requests": "200",
		"X-Ratelimit-Remaining-Requests": "199", "X-Ratelimit-Reset-Requests": "30.5s",
	}
	f.router.refuse(fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody").After(30 * time.Second))
	resp := f.post(hello)
	wantError(t, resp, http.StatusServiceUnavailable, "no_provider_online")
	wantHeaders(t, resp.Header, known)
	wantHeaders(t, resp.Header, map[string]string{"Retry-After": "30", "Retry-After-Ms": "30000", "X-Svc-Attempts": "",
		"X-Should-Retry": ""})

	f.router.set(nil)
	f.hub.set(failing(upstreamFailed()))
	resp = f.post(hello)
	wantError(t, resp, http.StatusBadGateway, "upstream_error")
	wantHeaders(t, resp.Header, known)
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-Attempts": "3"})

	f.hub.set(failing(&hubFailed))
	resp = f.post(hello)
	if read(t, resp); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status: got %d, want 400", resp.StatusCode)
	}
	wantHeaders(t, resp.Header, known)
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-Attempts": "1", "X-Svc-Provider-Id": providerA,
		"X-Should-Retry": "false"})
}

// A receipt is made of the hub's usage and of this report, so the report must have each
// field that only the gateway knows.
func TestTheAccountOfAFailoverIsWhole(t *testing.T) {
	f := start(t)
	f.hub.byAttempt(failing(upstreamFailed()), streamAnswer)
	resp := f.post(helloStream, "X-Svc-Provider", providerA)
	read(t, resp)
	w := f.report()
	switch {
	case w.GetRequestId() != resp.Header.Get("X-Svc-Request-Id"):
		t.Errorf("the account: w.GetRequestId(): got %q, want %q", w.GetRequestId(), resp.Header.Get("X-Svc-Request-Id"))
	case !w.GetStream():
		t.Errorf("the account: w.GetStream(): got false, want true, with %v", w)
	case w.GetHttpStatus() != http.StatusOK:
		t.Errorf("the account: w.GetHttpStatus(): got %d, want 200", w.GetHttpStatus())
	case w.GetOutcome() != billingv1.Outcome_OUTCOME_COMPLETED:
		t.Errorf("the account: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_COMPLETED)
	case w.GetCommittedAttempt() != 2:
		t.Errorf("the account: w.GetCommittedAttempt(): got %d, want 2", w.GetCommittedAttempt())
	case w.GetErrorCode() != "":
		t.Errorf(`the account: w.GetErrorCode(): got %q, want ""`, w.GetErrorCode())
	}
	switch r := w.GetRoute(); {
	case r.GetMode() != eventsv1.RouteMode_ROUTE_MODE_EXPLICIT:
		t.Errorf("the route: r.GetMode(): got %v, want %v", r.GetMode(), eventsv1.RouteMode_ROUTE_MODE_EXPLICIT)
	case r.GetRequestedProviderId() != providerA:
		t.Errorf("the route: r.GetRequestedProviderId(): got %q, want %q", r.GetRequestedProviderId(), providerA)
	case r.GetFallbackReason() != eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED:
		t.Errorf("the route: r.GetFallbackReason(): got %v, want %v", r.GetFallbackReason(),
			eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED)
	}
	if m := w.GetMetered(); m.GetPromptTokens() != 9 {
		t.Errorf("metered: m.GetPromptTokens(): got %d, want 9", m.GetPromptTokens())
	} else if m.GetCompletionTokens() != 3 {
		t.Errorf("metered: m.GetCompletionTokens(): got %d, want 3", m.GetCompletionTokens())
	}
	if since := time.Since(w.GetReceivedAt().AsTime()); since < 0 || since > time.Minute {
		t.Errorf("received: got %v, want 0 to %v", since, time.Minute)
	} else if w.GetTotalMs() < w.GetFirstContentMs() {
		t.Errorf("w.GetTotalMs(): got %d, want at least %d", w.GetTotalMs(), w.GetFirstContentMs())
	}
	want := []*billingv1.AttemptRecord{
		{Attempt: 1, ProviderId: providerA, ProviderName: "Provider a", Result: "failed", EngineStatus: 500, HubId: "hub-1"},
		{Attempt: 2, ProviderId: providerB, ProviderName: "Provider b", Result: "served", HubId: "hub-1"},
	}
	if len(w.GetAttempts()) != len(want) {
		t.Fatalf("attempts: got %d, want %d, in %v", len(w.GetAttempts()), len(want), w.GetAttempts())
	}
	for i, reported := range w.GetAttempts() {
		a := proto.CloneOf(reported)
		a.LatencyMs, a.FirstContentMs, a.ContentMs, a.ClientMs = 0, 0, 0, 0
		if !proto.Equal(a, want[i]) {
			t.Errorf("attempt: got %v, want %v", a, want[i])
		}
	}
}

// What the router passed over is reported once, with the attempt before which the router was asked.
func TestWhatWasPassedOverIsReportedWithTheFirstAttempt(t *testing.T) {
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerA, providerB)
		resp.PassedOver = []*routerv1.RejectCount{{Reason: "full", Count: 2}}
		return resp, nil
	})
	f.hub.byAttempt(failing(upstreamFailed()), streamAnswer)
	read(t, f.post(helloStream))
	attempts := f.report().GetAttempts()
	if len(attempts) != 2 {
		t.Fatalf("attempts: got %d, want 2", len(attempts))
	}
	want := &billingv1.PassedOver{Reason: "full", Count: 2}
	first := attempts[0].GetPassedOver()
	if len(first) != 1 {
		t.Fatalf("the first attempt: got %v, want one", first)
	}
	if !proto.Equal(first[0], want) {
		t.Errorf("the first attempt: got %v, want %v", first[0], want)
	}
	if got := attempts[1].GetPassedOver(); len(got) != 0 {
		t.Errorf("the second attempt: got %v, want nothing", got)
	}
}

// The time to first content of a provider is that of its own attempt.
func TestAnAttemptIsTimedFromItsOwnBeginning(t *testing.T) {
	f := start(t)
	f.hub.byAttempt(func(p *played) error {
		f.clock.standStill(5 * time.Second)
		return p.fail(upstreamFailed())
	}, func(p *played) error {
		f.clock.standStill(2 * time.Second)
		return p.steps(
			func() error { return p.event(helloChunk, true, 1) },
			p.committed,
			func() error {
				f.clock.standStill(3 * time.Second)
				return p.finish(9, 3)
			},
		)
	})
	read(t, f.post(helloStream))
	w := f.report()
	if len(w.GetAttempts()) != 2 {
		t.Fatalf("attempts: got %d, want 2, in %v", len(w.GetAttempts()), w.GetAttempts())
	}
	if got := w.GetAttempts()[0].GetFirstContentMs(); got != 0 {
		t.Errorf("the first content of the attempt that failed: got %d ms, want 0", got)
	}
	if got := w.GetAttempts()[1].GetFirstContentMs(); got < 2000 || got >= 7000 {
		t.Errorf("the first content of the second attempt: got %d ms, want 2000 to 7000", got)
	}
	if got := w.GetAttempts()[1].GetContentMs(); got < 3000 {
		t.Errorf("from the first content to the end: got %d ms, want at least 3000", got)
	}
	if got := w.GetFirstContentMs(); got < 7000 {
		t.Errorf("the first content of the request: got %d ms, want at least 7000", got)
	}
}

// Hostile test 3: one address may try so many keys; whom a proxy that is not
// trusted names does not matter.
func TestWrongKeysOfAnAddressAreBounded(t *testing.T) {
	stranger := func() string {
		key, err := apikey.Generate(apikey.Consumer, &counting{})
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + key
	}
	f := start(t, func(c *Config) { c.WrongKeys = 2 })
	for range 3 { // two, and one of a network in debt
		wantError(t, f.do(http.MethodPost, "/v1/chat/completions", hello, "Authorization", stranger()),
			401, "invalid_api_key")
	}
	resp := f.do(http.MethodPost, "/v1/chat/completions", hello, "Authorization", stranger(), "X-Forwarded-For",
		"203.0.113.1")
	wantError(t, resp, 429, "rate_limit_exceeded")
	if resp.Header.Get("Retry-After") == "" {
		t.Error(`how long to wait: resp.Header.Get("Retry-After"): got "", want some text`)
	} else if resp.Header.Get("Retry-After-Ms") == "" {
		t.Error(`how long to wait: resp.Header.Get("Retry-After-Ms"): got "", want some text`)
	}
	wantError(t, f.do(http.MethodPost, "/v1/chat/completions", hello, "Authorization", "Bearer nonsense"),
		401, "invalid_api_key")

	behind := start(t, func(c *Config) { c.WrongKeys, c.TrustedProxies = 2, "127.0.0.0/8, ::1" })
	for n := range 5 {
		from := "203.0.113." + strconv.Itoa(n)
		wantError(t, behind.do(http.MethodPost, "/v1/chat/completions", hello, "Authorization", stranger(), "X-Forwarded-For",
			"1.2.3.4, "+from), 401, "invalid_api_key")
	}
	for n := range 4 {
		code, status := "invalid_api_key", 401
		if n == 3 {
			code, status = "rate_limit_exceeded", 429
		}
		from := "2001:db8::" + strconv.Itoa(n)
		wantError(t, behind.do(http.MethodPost, "/v1/chat/completions", hello, "Authorization", stranger(), "X-Forwarded-For",
			from), status, code)
	}
}

// counting is randomness of which every key is another.
type counting struct{}

var counted byte

func (*counting) Read(p []byte) (int, error) {
	counted++
	for i := range p {
		p[i] = counted
	}
	return len(p), nil
}

func TestTheNumberOfMessagesIsBounded(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxMessages = 2 })
	message := `{"role":"user","content":"x"}`
	chat := func(n int) string {
		return `{"model":"` + modelID + `","messages":[` + strings.TrimSuffix(strings.Repeat(message+",", n), ",") + `]}`
	}
	if resp := f.post(chat(2)); resp.StatusCode != http.StatusOK {
		t.Errorf("two: got %d, want 200, with %s", resp.StatusCode, read(t, resp))
	}
	if e := wantError(t, f.post(chat(3)), http.StatusBadRequest, "invalid_value"); e.Error.Param == nil {
		t.Error("the param: got nil, want a value")
	} else if *e.Error.Param != "messages" {
		t.Errorf(`*e.Error.Param: got %q, want "messages"`, *e.Error.Param)
	}
}

// Hostile test 16: what could be read in two ways is refused, and its connection
// is closed, so that nothing behind it is taken for a request.
func TestWhatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	const smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
	cases := map[string]struct {
		request string
		status  int
	}{
		"two lengths":       {head + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd" + smuggled, 400},
		"list of lengths":   {head + "Content-Length: 4, 5\r\n\r\nabcd" + smuggled, 400},
		"signed length":     {head + "Content-Length: +4\r\n\r\nabcd" + smuggled, 400},
		"length of letters": {head + "Content-Length: 0x4\r\n\r\nabcd" + smuggled, 400},
		"two encodings":     {head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggled, 501},
		"encoding unknown":  {head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled, 501},
		"encoding twice": {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			smuggled, 501},
		"space before the colon":  {head + "Content-Length : 4\r\n\r\nabcd" + smuggled, 400},
		"folded header":           {head + " Transfer-Encoding: chunked\r\n\r\n" + smuggled, 400},
		"control in a value":      {head + "X-A: a\x00b\r\n\r\n" + smuggled, 400},
		"no host":                 {"GET /healthz HTTP/1.1\r\n\r\n" + smuggled, 400},
		"two hosts":               {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + smuggled, 400},
		"malformed first line":    {"GET /healthz\r\n\r\n" + smuggled, 400},
		"version of another kind": {"GET /healthz HTTP/3.7\r\nHost: x\r\n\r\n" + smuggled, 505},
		"expectation":             {head + "Expect: the-impossible\r\nContent-Length: 0\r\n\r\n" + smuggled, 417},
		"100,000 headers":         {head + strings.Repeat("X-A: b\r\n", 100_000) + "\r\n" + smuggled, 431},
		"length and chunks": {head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
			401},
		"malformed chunk": {head + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n" + smuggled, 401},
	}
	inBubble(t, func(_ *fleet, dial func() net.Conn) {
		for name, c := range cases {
			conn := dial()
			go func() { _, _ = conn.Write([]byte(c.request)) }() // it may be refused half-way
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if resp.StatusCode != c.status {
				t.Errorf("%s: status: got %d, want %d", name, resp.StatusCode, c.status)
			}
			if _, err := http.ReadResponse(bufio.NewReader(resp.Body), nil); err == nil {
				t.Errorf("%s: an answer within the answer", name)
			}
			// Of a length and chunks the chunks hold, as the RFC says; but chunks are
			// the last of their connection, so what comes behind them is nothing.
			if next, err := http.ReadResponse(in, nil); err == nil {
				t.Errorf("%s: what came behind was answered with %v, %v", name, next, err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The header names the mode of the attempt that has served, not of the first candidate.
func TestTheConnectionModeIsThatOfTheAttemptThatServed(t *testing.T) {
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerA, providerB)
		resp.GetCandidates()[1].ConnectionMode = eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL
		return resp, nil
	})
	for name, body := range map[string]string{"whole": hello, "stream": helloStream} {
		script := wholeAnswer
		if name == "stream" {
			script = streamAnswer
		}
		f.hub.set(script)
		resp := f.post(body)
		read(t, resp)
		if got := resp.Header.Get("X-Svc-Connection-Mode"); got != "websocket" {
			t.Errorf(`%s, by the first candidate: got %q, want "websocket"`, name, got)
		}
		f.hub.byAttempt(failing(upstreamFailed()), script)
		resp = f.post(body)
		read(t, resp)
		if got := resp.Header.Get("X-Svc-Connection-Mode"); got != "external" {
			t.Errorf(`%s, by the second candidate: got %q, want "external"`, name, got)
		}
		f.hub.byAttempt(failing(upstreamFailed()), failing(&hubFailed))
		resp = f.post(body)
		if read(t, resp); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s, refused by the second candidate: status: got %d, want 400", name, resp.StatusCode)
		}
		if got := resp.Header.Get("X-Svc-Connection-Mode"); got != "external" {
			t.Errorf(`%s, refused by the second candidate: got %q, want "external"`, name, got)
		}
	}
}
