package edgegateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/edge-gateway/internal/playground"
)

// visits keeps the sessions of each address and counts its visits, for as long as a test
// lasts.
type visits struct {
	billingv1.UnimplementedVisitorServiceServer
	mu       sync.Mutex
	made     map[string]int
	sessions map[string]string // the address of each session
	opened   int               // calls of OpenVisitorSession
	err      error
}

func (v *visits) OpenVisitorSession(
	_ context.Context, req *billingv1.OpenVisitorSessionRequest,
) (*billingv1.OpenVisitorSessionResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opened++
	if v.err != nil {
		return nil, v.err
	}
	address := string(req.GetAddress())
	held, live := v.sessions[string(req.GetHeldSessionSha256())]
	resp := &billingv1.OpenVisitorSessionResponse{
		Opened: !live || held != address, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour)),
		Remaining: req.GetLimit() - int32(v.made[address]), ResetMs: 60_000,
	}
	if resp.Opened {
		v.sessions[string(req.GetSessionSha256())] = address
	}
	return resp, nil
}

func (v *visits) TakeVisit(_ context.Context, req *billingv1.TakeVisitRequest) (*billingv1.TakeVisitResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return nil, v.err
	}
	if address, live := v.sessions[string(req.GetSessionSha256())]; !live || address != string(req.GetAddress()) {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "x")
	}
	n := v.made[string(req.GetAddress())]
	if n >= int(req.GetLimit()) {
		return nil, fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(40 * time.Minute)
	}
	v.made[string(req.GetAddress())] = n + 1
	return &billingv1.TakeVisitResponse{Remaining: req.GetLimit() - int32(n) - 1, ResetMs: 3_600_000,
		KeyId: "key-of-the-platform", AccountId: "account-of-the-platform", AccountTag: []byte("platform")}, nil
}

// openings is how often a session was asked for.
func (v *visits) openings() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.opened
}

// forget ends all sessions.
func (v *visits) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.sessions)
}

func (v *visits) refuse(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

func (v *visits) total() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, made := range v.made {
		n += made
	}
	return n
}

// openPlayground runs a gateway with one.
func openPlayground(t *testing.T, change ...func(*Config)) *fleet {
	t.Helper()
	f := newFleet(t, change...)
	cfg := f.cfg
	cfg.PlaygroundModels = modelID
	cfg.VisitorSecret = config.NewSecret("the gateways' secret")
	svc, err := New(t.Context(), cfg, f.svc.deps)
	if err != nil {
		t.Fatal(err)
	}
	f.svc = svc
	return f.start()
}

const playgroundBody = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`

// session opens a session as a page of the site does, and returns its cookie.
func (f *fleet) session(headers ...string) string {
	f.t.Helper()
	resp := f.do(http.MethodGet, "/v1/playground/models", "", append([]string{"Origin", f.base}, headers...)...)
	read(f.t, resp)
	cookies := resp.Cookies()
	if len(cookies) != 1 {
		f.t.Fatalf("cookies: got %d, want 1, with the status %d", len(cookies), resp.StatusCode)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// visitIn asks in a session as a page of the site does.
func (f *fleet) visitIn(cookie, body string, headers ...string) *http.Response {
	f.t.Helper()
	return f.do(http.MethodPost, "/v1/playground/chat", body,
		append([]string{"Origin", f.base, "Cookie", cookie}, headers...)...)
}

// visit is visitIn with a session of its own.
func (f *fleet) visit(body string, headers ...string) *http.Response {
	f.t.Helper()
	return f.visitIn(f.session(headers...), body, headers...)
}

func TestAVisitorIsAnsweredAtThePlatformsExpense(t *testing.T) {
	f := openPlayground(t)
	resp := f.visit(playgroundBody)
	if body := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp.StatusCode: got %d, want 200", resp.StatusCode)
	} else if !strings.Contains(body, "Hello") {
		t.Fatalf(`body: got %q, want "Hello" in it`, body)
	}
	for name, want := range map[string]string{
		"X-Svc-Billing-Type": "playground", "X-Ratelimit-Limit-Requests": "5", "X-Ratelimit-Remaining-Requests": "4",
		"Access-Control-Allow-Origin": "", "Content-Type": "application/json",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if order := awaited(f.t, f.billing.admits); order.GetKeyId() != "key-of-the-platform" {
		t.Errorf(`admitted: order.GetKeyId(): got %q, want "key-of-the-platform"`, order.GetKeyId())
	} else if order.GetMaxCompletionTokens() > 100 {
		t.Errorf("admitted: order.GetMaxCompletionTokens(): got %d, want at most 100", order.GetMaxCompletionTokens())
	}
	if open := awaited(f.t, f.hub.opens); !bytes.Contains(open.GetBody(), []byte(`"max_tokens":100`)) {
		t.Errorf("the provider: got %q, want %q in it", open.GetBody(), []byte(`"max_tokens":100`))
	}
}

// Hostile test 57: the sixth is refused, whatever the headers say of who comes.
func TestTheSixthVisitOfAnHourIsRefused(t *testing.T) {
	f := openPlayground(t)
	for i := range 5 {
		if resp := f.visit(playgroundBody, "X-Forwarded-For", "203.0.113."+itoa(i), "Forwarded", "for=203.0.113."+itoa(i),
			"X-Real-Ip", "203.0.113."+itoa(i)); resp.StatusCode != http.StatusOK {
			t.Fatalf("visit %d: got %d, want 200, with %s", i+1, resp.StatusCode, read(t, resp))
		}
	}
	resp := f.visit(playgroundBody, "X-Forwarded-For", "203.0.113.99")
	body := read(t, resp)
	switch {
	case resp.StatusCode != http.StatusTooManyRequests:
		t.Errorf("the sixth: resp.StatusCode: got %d, want 429", resp.StatusCode)
	case !strings.Contains(body, "rate_limit_exceeded"):
		t.Errorf(`the sixth: body: got %q, want "rate_limit_exceeded" in it`, body)
	case resp.Header.Get("Retry-After") != "2400":
		t.Errorf(`the sixth: resp.Header.Get("Retry-After"): got %q, want "2400"`, resp.Header.Get("Retry-After"))
	}
	if got := resp.Header.Get("X-Ratelimit-Remaining-Requests"); got != "0" {
		t.Errorf(`left: got %q, want "0"`, got)
	}
	if n := len(f.billing.admits); n != 5 {
		t.Errorf("requests admitted: got %d, want 5", n)
	}
}

// Hostile test 57: behind a trusted proxy it is the right-most hop that is not
// trusted that counts, and of IPv6 its /64.
func TestVisitsAreCountedByTheTrustedHopAndItsNetwork(t *testing.T) {
	f := openPlayground(t, func(c *Config) { c.TrustedProxies, c.PlaygroundPerHour = "127.0.0.0/8,::1,10.0.0.0/8", 1 })
	for _, tc := range []struct {
		forwarded []string
		want      int
	}{
		{[]string{"203.0.113.1"}, 200},
		{[]string{"198.51.100.7, 203.0.113.1"}, 429}, // what stands to the left was the client's to write
		{[]string{"198.51.100.7", "203.0.113.1, 10.0.0.5"}, 429},
		{[]string{"203.0.113.2"}, 200},
		{[]string{"2001:db8:1:1::1"}, 200},
		{[]string{"2001:db8:1:1:ffff::2"}, 429}, // another of the same /64
		{[]string{"2001:db8:1:2::1"}, 200},
		{[]string{"::ffff:203.0.113.2"}, 429},
		{[]string{"nonsense"}, 200}, // the proxy itself, once
		{[]string{"other nonsense"}, 429},
		{nil, 429},
	} {
		var headers []string
		for _, line := range tc.forwarded {
			headers = append(headers, "X-Forwarded-For", line)
		}
		if resp := f.visit(playgroundBody, headers...); resp.StatusCode != tc.want {
			t.Errorf("%q: got %d, want %d: %s", tc.forwarded, resp.StatusCode, tc.want, read(t, resp))
		}
	}
}

func TestThePlaygroundRefusesBeforeItCountsAVisit(t *testing.T) {
	f := openPlayground(t)
	cookie := f.session()
	with := func(extra string) string { return strings.Replace(playgroundBody, "{", "{"+extra+",", 1) }
	for _, tc := range []struct {
		body    string
		headers []string
		status  int
		param   string
	}{
		{with(`"stream":true`), nil, 400, "stream"},
		{with(`"max_tokens":101`), nil, 400, "max_tokens"},
		{with(`"max_completion_tokens":4096`), nil, 400, "max_completion_tokens"},
		{with(`"n":2`), nil, 400, "n"},
		{with(`"models":["` + modelID + `"]`), nil, 400, "models"},
		{with(`"provider":{"only":["` + providerA + `"]}`), nil, 400, "provider"},
		{playgroundBody, []string{"X-Svc-Provider", providerA}, 400, "X-Svc-Provider"},
		{strings.Replace(playgroundBody, "tiny", "unknown", 1), nil, 404, "model"},
		{`{"model":"tiny"}`, nil, 400, "messages"},
		{`not JSON`, nil, 400, ""},
		{playgroundBody + strings.Repeat(" ", 16<<10), nil, 413, ""},
		{playgroundBody, []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},
	} {
		resp := f.visitIn(cookie, tc.body, tc.headers...)
		body := read(t, resp)
		if resp.StatusCode != tc.status {
			t.Errorf("%.60s %v: resp.StatusCode: got %d, want %d, with %q", tc.body, tc.headers, resp.StatusCode, tc.status,
				tc.param)
		} else if tc.param != "" && !strings.Contains(body, `"param":"`+tc.param+`"`) {
			t.Errorf(`%.60s %v: body: got %q, want %q in it, where tc.param != "", with %q`, tc.body, tc.headers, body,
				`"param":"`+tc.param+`"`, tc.param)
		}
	}
	for _, headers := range [][]string{nil, {"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"}} {
		resp := f.do(http.MethodPost, "/v1/playground/chat", playgroundBody, headers...)
		switch body := read(t, resp); {
		case resp.StatusCode != http.StatusForbidden:
			t.Errorf("%q: resp.StatusCode: got %d, want 403", headers, resp.StatusCode)
		case !strings.Contains(body, "origin_not_allowed"):
			t.Errorf(`%q: body: got %q, want "origin_not_allowed" in it`, headers, body)
		case resp.Header.Get("Access-Control-Allow-Origin") != "":
			t.Errorf(`%q: resp.Header.Get(…): got %q, want ""`, headers, resp.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	if n := f.visits.total(); n != 0 {
		t.Errorf("visits counted: got %d, want 0", n)
	}
}

func TestWithoutTheCounterThePlaygroundIsClosed(t *testing.T) {
	f := openPlayground(t)
	cookie := f.session()
	f.visits.refuse(fault.New(fault.Unavailable, fault.ServiceUnavailable, "the store cannot be reached"))
	if resp := f.visitIn(cookie, playgroundBody); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("resp.StatusCode: got %d, want 503, with %s", resp.StatusCode, read(t, resp))
	}
	resp := f.do(http.MethodGet, "/v1/playground/models", "", "Origin", f.base)
	read(t, resp)
	opensNoSession(t, resp, http.StatusServiceUnavailable)
	f.visits.refuse(nil)
	// What the paying account lacks is nothing that a visitor can mend.
	f.billing.refuse(fault.New(fault.Denied, fault.AccountFrozen, "the account is frozen"))
	resp = f.visitIn(cookie, playgroundBody)
	if body := read(t, resp); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("resp.StatusCode: got %d, want 503", resp.StatusCode)
	} else if strings.Contains(body, "frozen") {
		t.Errorf(`body: got %q, want it without "frozen"`, body)
	}
}

// opensNoSession looks at the answer to a list of models while billing-ledger gives no session.
func opensNoSession(t *testing.T, resp *http.Response, status int) {
	t.Helper()
	if resp.StatusCode != status {
		t.Errorf("the models: resp.StatusCode: got %d, want %d", resp.StatusCode, status)
	}
	if n := len(resp.Cookies()); n != 0 {
		t.Errorf("the models: cookies: got %d, want 0", n)
	}
	if got := resp.Header.Get("Retry-After"); got == "" {
		t.Error("the models: Retry-After: got none, want one")
	}
}

func TestANetworkWithoutRoomForASessionIsToldWhenToAskAgain(t *testing.T) {
	f := openPlayground(t)
	f.visits.refuse(fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(40 * time.Minute))
	resp := f.do(http.MethodGet, "/v1/playground/models", "", "Origin", f.base)
	if body := read(t, resp); !strings.Contains(body, "no room for another playground session") {
		t.Errorf("body: got %q, want it to say that there is no room", body)
	}
	opensNoSession(t, resp, http.StatusTooManyRequests)
	if got := resp.Header.Get("Retry-After"); got != "2400" {
		t.Errorf(`Retry-After: got %q, want "2400"`, got)
	}
}

// One network cannot keep billing-ledger busy with sessions.
func TestTheModelsAreListedThirtyTimesAMinuteForANetwork(t *testing.T) {
	f := openPlayground(t, func(c *Config) { c.TrustedProxies = "127.0.0.0/8,::1" })
	list := func(from string) *http.Response {
		return f.do(http.MethodGet, "/v1/playground/models", "", "Origin", f.base, "X-Forwarded-For", from)
	}
	for i := range 30 {
		if resp := list("2001:db8::" + itoa(i+1)); resp.StatusCode != http.StatusOK {
			t.Fatalf("list %d: got %d, want 200, with %s", i+1, resp.StatusCode, read(t, resp))
		}
	}
	before := f.visits.openings()
	resp := list("2001:db8::ffff")
	read(t, resp)
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the list beyond: got %d, want 429", resp.StatusCode)
	}
	if after, _ := strconv.Atoi(resp.Header.Get("Retry-After")); after < 1 || after > 60 {
		t.Errorf("Retry-After: got %q, want 1 to 60", resp.Header.Get("Retry-After"))
	}
	if got := f.visits.openings(); got != before {
		t.Errorf("sessions asked of billing-ledger: got %d, want %d", got, before)
	}
	if resp := list("203.0.113.1"); resp.StatusCode != http.StatusOK {
		t.Errorf("another network: got %d, want 200, with %s", resp.StatusCode, read(t, resp))
	}
}

// Whether the ledger knows before or the last of the budget went to a faster chat, the
// visitor is told to come back tomorrow (UTC).
func TestASpentBudgetIsToldWithTheTimeToWait(t *testing.T) {
	f := openPlayground(t)
	cookie := f.session()
	wait := time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
	before := fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(wait).With("limit_name", "playground_budget")
	raced := fault.New(fault.Precondition, fault.InsufficientCredits, "x").With("limit_name", "day_cap")
	for what, refuse := range map[string]func(){
		"before a visit is taken": func() { f.visits.refuse(before) },
		"at admission":            func() { f.visits.refuse(nil); f.billing.refuse(raced) },
	} {
		refuse()
		resp := f.visitIn(cookie, playgroundBody)
		body := read(t, resp)
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		switch {
		case resp.StatusCode != http.StatusTooManyRequests:
			t.Errorf("%s: resp.StatusCode: got %d, want 429, with %s", what, resp.StatusCode, body)
		case !strings.Contains(body, "Today's playground budget"):
			t.Errorf(`%s: body: got %q, want "Today's playground budget" in it`, what, body)
		case strings.Contains(body, "day_cap"):
			t.Errorf(`%s: body: got %q, want it without "day_cap"`, what, body)
		case (time.Duration(after)*time.Second - wait).Abs() > time.Minute:
			t.Errorf("%s: Retry-After: got %d s, want %v", what, after, wait)
		}
	}
}

func TestAChatNeedsALiveSessionOfItsNetwork(t *testing.T) {
	f := openPlayground(t, func(c *Config) { c.TrustedProxies = "127.0.0.0/8,::1" })
	cookie := f.session("X-Forwarded-For", "203.0.113.1")
	guess := playground.CookieName + "=" + strings.Repeat("A", 43)
	for what, headers := range map[string][]string{
		"no cookie":       {"X-Forwarded-For", "203.0.113.1"},
		"another network": {"X-Forwarded-For", "203.0.113.2", "Cookie", cookie},
		"a guess":         {"X-Forwarded-For", "203.0.113.1", "Cookie", guess},
		"no secret":       {"X-Forwarded-For", "203.0.113.1", "Cookie", playground.CookieName + "=x"},
		"two cookies":     {"X-Forwarded-For", "203.0.113.1", "Cookie", cookie + "; " + guess},
	} {
		resp := f.do(http.MethodPost, "/v1/playground/chat", playgroundBody, append(headers, "Origin", f.base)...)
		switch body := read(t, resp); {
		case resp.StatusCode != http.StatusUnauthorized:
			t.Errorf("%s: resp.StatusCode: got %d, want 401", what, resp.StatusCode)
		case !strings.Contains(body, "invalid_session"):
			t.Errorf(`%s: body: got %q, want "invalid_session" in it`, what, body)
		case !strings.Contains(body, "GET /v1/playground/models"):
			t.Errorf("%s: body: got %q, want it to say what to do", what, body)
		}
	}
	if n := f.visits.total(); n != 0 {
		t.Errorf("visits counted: got %d, want 0", n)
	}
	if resp := f.visitIn(cookie, playgroundBody, "X-Forwarded-For", "203.0.113.1"); resp.StatusCode != http.StatusOK {
		t.Errorf("its own network: got %d, want 200, with %s", resp.StatusCode, read(t, resp))
	}
	f.visits.forget()
	if resp := f.visitIn(cookie, playgroundBody, "X-Forwarded-For", "203.0.113.1"); resp.StatusCode != 401 {
		t.Errorf("once it is over: got %d, want 401, with %s", resp.StatusCode, read(t, resp))
	}
}

func TestTheModelsOpenASessionThatNoPageCanRead(t *testing.T) {
	f := openPlayground(t)
	resp := f.do(http.MethodGet, "/v1/playground/models", "", "Origin", f.base)
	read(t, resp)
	cookies := resp.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies: got %d, want 1", len(cookies))
	}
	switch c := cookies[0]; {
	case c.Name != "svc_playground":
		t.Errorf(`c.Name: got %q, want "svc_playground"`, c.Name)
	case !c.HttpOnly:
		t.Error("c.HttpOnly: got false, want true")
	case !c.Secure:
		t.Error("c.Secure: got false, want true")
	case c.SameSite != http.SameSiteStrictMode:
		t.Errorf("c.SameSite: got %v, want %v", c.SameSite, http.SameSiteStrictMode)
	case c.Domain != "":
		t.Errorf(`c.Domain: got %q, want ""`, c.Domain)
	case c.Path != "/v1/playground":
		t.Errorf(`c.Path: got %q, want "/v1/playground"`, c.Path)
	case c.MaxAge < 59*60 || c.MaxAge > 60*60:
		t.Errorf("c.MaxAge: got %d, want an hour of seconds", c.MaxAge)
	case !c.Expires.IsZero():
		t.Errorf("c.Expires: got %v, want none, because a browser's clock may be wrong", c.Expires)
	}
	for name, want := range map[string]string{"X-Ratelimit-Limit-Requests": "5", "X-Ratelimit-Remaining-Requests": "5",
		"Cache-Control": "no-store", "Access-Control-Allow-Origin": ""} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	cookie := cookies[0].Name + "=" + cookies[0].Value
	again := f.do(http.MethodGet, "/v1/playground/models", "", "Origin", f.base, "Cookie", cookie)
	read(t, again)
	if n := len(again.Cookies()); n != 0 {
		t.Errorf("cookies with a live session: got %d, want 0", n)
	}
	read(t, f.visitIn(cookie, playgroundBody))
	again = f.do(http.MethodGet, "/v1/playground/models", "", "Origin", f.base, "Cookie", cookie)
	read(t, again)
	if got := again.Header.Get("X-Ratelimit-Remaining-Requests"); got != "4" {
		t.Errorf(`left after a chat: got %q, want "4"`, got)
	}
	if text := f.log.String(); strings.Contains(text, cookies[0].Value) {
		t.Errorf("the log holds the secret of a session:\n%s", text)
	}
}

func TestThePlaygroundListsItsModels(t *testing.T) {
	f := openPlayground(t)
	resp := f.do(http.MethodGet, "/v1/playground/models", "", "Sec-Fetch-Site", "same-origin")
	switch body := read(t, resp); {
	case resp.StatusCode != http.StatusOK:
		t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
	case !strings.Contains(body, `"id":"`+modelID+`"`):
		t.Errorf("body: got %q, want %q in it", body, `"id":"`+modelID+`"`)
	case !strings.HasPrefix(body, `{"object":"list","data":[{`):
		t.Errorf("body: got %q, want the prefix %q", body, `{"object":"list","data":[{`)
	}
	if resp := f.do(http.MethodGet, "/v1/playground/models", ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("no page: got %d, want 403", resp.StatusCode)
	}
}

func TestWithoutConfigurationThereIsNoPlayground(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/v1/playground/chat", "/v1/playground/models"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			resp := f.do(method, path, "", "Sec-Fetch-Site", "same-origin")
			if body := read(t, resp); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: resp.StatusCode: got %d, want 404", method, path, resp.StatusCode)
			} else if !strings.Contains(body, "unknown_route") {
				t.Errorf(`%s %s: body: got %q, want "unknown_route" in it`, method, path, body)
			}
		}
	}
	cfg := DefaultConfig()
	cfg.PlaygroundModels, cfg.PlaygroundPerHour = "a/b", 0
	cfg.VisitorSecret = config.NewSecret("short")
	switch err := cfg.Validate(); {
	case err == nil:
		t.Error("got no error, want one")
	case !strings.Contains(err.Error(), "VisitorSecret"):
		t.Errorf(`got the error %q, want "VisitorSecret" in it`, err)
	case !strings.Contains(err.Error(), "PlaygroundPerHour"):
		t.Errorf(`got the error %q, want "PlaygroundPerHour" in it`, err)
	}
}

// A connection that has no address is still counted, with all of its kind.
func TestAConnectionWithoutAnAddressHasVisitsToo(t *testing.T) {
	f := openPlayground(t, func(c *Config) { c.PlaygroundPerHour = 1 })
	serve := func(method, path, cookie string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(playgroundBody))
		r.RemoteAddr = "@"
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		f.svc.Handler().ServeHTTP(w, r)
		return w
	}
	cookie, _, _ := strings.Cut(serve(http.MethodGet, "/v1/playground/models", "").Header().Get("Set-Cookie"), ";")
	for _, want := range []int{200, 429} {
		w := serve(http.MethodPost, "/v1/playground/chat", cookie)
		if w.Code != want {
			t.Errorf("got %d, want %d: %s", w.Code, want, w.Body)
		}
	}
}

// A null counts as absent, and no name stands twice in the body that is sent.
func TestAVisitorMayLeaveTheLengthNull(t *testing.T) {
	f := openPlayground(t)
	for i, body := range []string{`"max_tokens":null`, `"max_t\u006fkens" : null`, `"max_completion_tokens":null`} {
		resp := f.visit(strings.Replace(playgroundBody, "{", "{"+body+",", 1))
		if got := read(t, resp); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %d, want 200, with %s", body, resp.StatusCode, got)
		}
		open := awaited(f.t, f.hub.opens)
		var sent struct {
			MaxTokens int `json:"max_tokens"`
		}
		switch err := json.Unmarshal(open.GetBody(), &sent); {
		case err != nil:
			t.Errorf("%d: got the error %v, want none", i, err)
		case sent.MaxTokens != 100:
			t.Errorf("%d: sent.MaxTokens: got %d, want 100, with %s", i, sent.MaxTokens, open.GetBody())
		case open.GetMaxOutputTokens() != 100:
			t.Errorf("%d: open.GetMaxOutputTokens(): got %d, want 100", i, open.GetMaxOutputTokens())
		}
	}
}
