package edgegateway

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/operator"
)

// signInPage signs bob in as a page of the operators' listener does.
func (f *fleet) signInPage() *http.Response {
	f.t.Helper()
	return f.sign("correct", "Content-Type", "application/json", "Origin", f.operators)
}

// refreshAs calls the refresh of operators' pages.
func (f *fleet) refreshAs(headers ...string) *http.Response {
	f.t.Helper()
	return f.do(http.MethodPost, operator.RefreshPath, "", headers...)
}

// refreshPage is a page's refresh with cookies.
func (f *fleet) refreshPage(cookies string) *http.Response {
	f.t.Helper()
	return f.refreshAs("Cookie", cookies, "Sec-Fetch-Site", "same-origin")
}

var bobsCookie = "svc_operator=" + bobsToken

// cookieGone is the cookie that has a browser forget the token.
const cookieGone = "svc_operator=; Path=/api/v1/admin/session; Max-Age=0; HttpOnly; Secure; SameSite=Strict"

func wantCookie(t *testing.T, what string, resp *http.Response, want ...string) {
	t.Helper()
	got := resp.Header.Values("Set-Cookie")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: the cookies: got %q, want %q", what, got, want)
	}
}

func TestAPageOfOperatorsGetsItsTokenAgain(t *testing.T) {
	f := startSigning(t)
	opened := f.signInPage()
	want := read(t, opened)
	wantCookie(t, "signing in", opened, bobsCookie+
		"; Path=/api/v1/admin/session; Expires=Sat, 02 Jan 2100 03:04:05 GMT; HttpOnly; Secure; SameSite=Strict")
	if !strings.Contains(want, `"token":"`+bobsToken+`","expires_at":"2100-01-02T03:04:05Z"`) {
		t.Errorf("signing in: got %s, want the token and its end", want)
	}
	for _, cookies := range []string{bobsCookie, "a=b; " + bobsCookie + "; svc_operators=x"} {
		again := f.refreshPage(cookies)
		if got := read(t, again); again.StatusCode != http.StatusOK {
			t.Errorf("%q: got %d %s, want 200", cookies, again.StatusCode, got)
		} else if got != want {
			t.Errorf("%q: got %s, want %s", cookies, got, want)
		}
		if got := again.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control: got %q, want no-store", got)
		}
		wantCookie(t, "refreshing", again)
	}
	out := f.do(http.MethodDelete, operator.SessionPath, "", "Authorization", "Bearer "+bobsToken)
	if body := read(t, out); out.StatusCode != http.StatusOK {
		t.Errorf("signing out: got %d %s, want 200", out.StatusCode, body)
	}
	wantCookie(t, "signing out", out, cookieGone)
	refused := f.do(http.MethodDelete, operator.SessionPath, "", "Cookie", bobsCookie, "Sec-Fetch-Site", "same-origin")
	wantError(t, refused, http.StatusUnauthorized, "missing_api_key")
	wantCookie(t, "signing out without a token", refused)
}

// A program keeps its token itself, and a page of another site must not set a cookie here.
func TestOnlyAPageOfOperatorsGetsTheCookie(t *testing.T) {
	f := startSigning(t)
	for name, headers := range map[string][]string{
		"a program":                    nil,
		"a page of another port":       {"Origin", "http://localhost:9999", "Sec-Fetch-Site", "same-site"},
		"a page of the public console": {"Origin", f.base, "Sec-Fetch-Site", "same-site"},
		"another port, an old browser": {"Origin", f.base},
		"an origin that is hidden":     {"Origin", "null"},
	} {
		resp := f.sign("correct", append([]string{"Content-Type", "application/json"}, headers...)...)
		if body := read(t, resp); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", name, resp.StatusCode, body)
		}
		wantCookie(t, name, resp)
	}
	wrong := f.sign("wrong", "Content-Type", "application/json", "Origin", f.operators)
	wantError(t, wrong, http.StatusUnauthorized, "invalid_credentials")
	wantCookie(t, "a wrong password", wrong)
}

// A page of another port of localhost is same-site, so browsers send the strict cookie with its calls.
func TestNoPageOfAnotherOriginUsesTheCookieOfOperators(t *testing.T) {
	f := startSigning(t)
	const form = "application/x-www-form-urlencoded"
	for name, headers := range map[string][]string{
		"a program":                      nil,
		"another port":                   {"Origin", "http://localhost:9999", "Sec-Fetch-Site", "same-site"},
		"the public console":             {"Origin", f.base, "Sec-Fetch-Site", "same-site"},
		"another port, an old browser":   {"Origin", f.base},
		"another site":                   {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		"another site, an old browser":   {"Origin", "https://evil.example"},
		"a form of another port":         {"Origin", f.base, "Sec-Fetch-Site", "same-site", "Content-Type", form},
		"a form of another site":         {"Origin", "null", "Sec-Fetch-Site", "cross-site", "Content-Type", form},
		"a link that a person follows":   {"Sec-Fetch-Site", "none"},
		"two words of where it is from":  {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"},
		"our origin, and same-site":      {"Origin", f.operators, "Sec-Fetch-Site", "same-site"},
		"two origins":                    {"Origin", f.operators, "Origin", "https://evil.example"},
		"our origin as a part of theirs": {"Origin", f.operators + ".evil.example"},
	} {
		resp := f.refreshAs(append([]string{"Cookie", bobsCookie}, headers...)...)
		e := wantError(t, resp, http.StatusForbidden, "origin_not_allowed")
		if strings.Contains(e.Error.Message, bobsToken) {
			t.Errorf("%s: got the token", name)
		}
		for header := range resp.Header {
			if strings.HasPrefix(header, "Access-Control-") {
				t.Errorf("%s: got the header %s, want none", name, header)
			}
		}
		if got := resp.Header.Get("Set-Cookie"); got != "" {
			t.Errorf("%s: got the cookie %q, want none", name, got)
		}
	}
	if got := f.staff.lookups(); got != 0 {
		t.Errorf("sessions looked up: got %d, want 0", got)
	}
	wantError(t, f.doAt(f.base, http.MethodPost, operator.RefreshPath, "", "Cookie", bobsCookie, "Sec-Fetch-Site",
		"same-origin"), http.StatusNotFound, "unknown_route")
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		wantError(t, f.do(method, operator.RefreshPath, "", "Cookie", bobsCookie, "Sec-Fetch-Site", "same-origin"),
			http.StatusUnauthorized, "missing_api_key")
	}
}

func TestARefreshNeedsExactlyOneCookieOfASessionThatLives(t *testing.T) {
	f := startSigning(t)
	for cookies, over := range map[string]bool{
		"":                              false,
		"svc_refresh=" + bobsToken:      false,
		bobsCookie + "; " + bobsCookie:  false,
		bobsCookie + "; svc_operator=x": false,
		"svc_operator=":                 true,
		"svc_operator=ops_short":        true,
		"svc_operator=ops_" + strings.Repeat("z", 43): true,
		"svc_operator=" + adminToken:                  true, // a machine has no session
	} {
		resp := f.refreshPage(cookies)
		wantError(t, resp, http.StatusUnauthorized, "invalid_session")
		if over {
			wantCookie(t, cookies, resp, cookieGone)
		} else {
			wantCookie(t, cookies, resp)
		}
	}
	f.staff.set(bobsToken, "admin", fault.New(fault.Unauthenticated, fault.SessionExpired, "over"))
	ended := f.refreshPage(bobsCookie)
	wantError(t, ended, http.StatusUnauthorized, "invalid_session")
	wantCookie(t, "a session that is over", ended, cookieGone)
	f.staff.set(bobsToken, "admin", fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	away := f.refreshPage(bobsCookie)
	wantError(t, away, http.StatusServiceUnavailable, "service_unavailable")
	wantCookie(t, "while nobody knows", away)
}

func TestAWrongCookieIsAGuess(t *testing.T) {
	f := startSigning(t)
	read(t, f.signInPage())
	before := f.staff.lookups()
	for range 200 {
		read(t, f.refreshPage("svc_operator=ops_"+strings.Repeat("z", 43)))
	}
	// A minute's guesses, and two thirds as many for a network that has to wait.
	if got := f.staff.lookups() - before; got != 10+6 {
		t.Errorf("cookies looked up at one moment: got %d, want 16", got)
	}
	wantError(t, f.refreshPage("svc_operator=ops_"+strings.Repeat("y", 43)), http.StatusTooManyRequests,
		"rate_limit_exceeded")
	if resp := f.refreshPage(bobsCookie); resp.StatusCode != http.StatusOK {
		t.Errorf("a cookie that was good: got %d %s, want 200", resp.StatusCode, read(t, resp))
	}
}

// Whatever else a browser sends, one route takes the cookie for a proof of anything, on either listener.
func TestNoOtherRouteTakesTheCookieOfOperators(t *testing.T) {
	f := surfaceFleet(t)
	walked := 0
	for _, o := range operations(t) {
		if o.keyless {
			continue
		}
		walked++
		o.wantError(t, f.ask(o, "Cookie", "svc_operator="+bossToken, "Sec-Fetch-Site", "same-origin"),
			http.StatusUnauthorized, "missing_api_key")
	}
	if walked < 150 {
		t.Errorf("routes: got %d, want at least 150", walked)
	}
	if got := f.staff.lookups(); got != 0 {
		t.Errorf("sessions looked up: got %d, want 0", got)
	}
}

func TestTheCookieOfOperatorsIsNotLogged(t *testing.T) {
	f := startSigning(t)
	read(t, f.signInPage())
	read(t, f.refreshPage(bobsCookie))
	read(t, f.refreshPage("svc_operator=ops_"+strings.Repeat("z", 43)))
	read(t, f.refreshAs("Cookie", bobsCookie, "Sec-Fetch-Site", "cross-site"))
	text := f.log.String()
	if strings.Contains(text, bobsToken) {
		t.Errorf("got %q, want it without the token", text)
	}
	if strings.Contains(text, "zzz") {
		t.Errorf("got %q, want it without a wrong token", text)
	}
	if !strings.Contains(text, "path="+operator.RefreshPath) {
		t.Errorf("got %q, want a line of the refresh", text)
	}
}
