package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/oidctest"
	"svc.internal/services/proving/internal/trial"
)

// The routes of users of an OpenID provider that is named local.
const (
	openIDStart = "/api/v1/user/oidc/local/start"
	refresh     = "/api/v1/user/refresh"
	ownUser     = "/api/v1/user/me"
)

// openIDMarket is a marketplace whose users sign in at an OpenID provider on this machine.
type openIDMarket struct {
	*trial.Market
	provider *oidctest.Provider
}

func startOpenID(t *testing.T) openIDMarket {
	t.Helper()
	p, address, authorities := oidctest.New(t), trial.FreeAddress(t), filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, p.Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	return openIDMarket{trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error", "SVC_HTTP_ADDR="+address,
		"SVC_BILLING_OPENID=local "+p.URL+" client hush http://"+address+"/api/v1/user/oidc/local/callback",
		"SVC_BILLING_OPENID_DEVELOPMENT_CA="+authorities), p}
}

// claims has the provider say that of its user.
func (m openIDMarket) claims(name string, value any) {
	m.provider.Change(func(claims map[string]any) { claims[name] = value })
}

// loopbackJar keeps cookies as browsers do. Loopback is as good as TLS to them, so cookies that are
// Secure go there. A cookie whose name begins with __Host- is dropped unless it is Secure, for all
// paths, and for one host.
type loopbackJar struct{ http.CookieJar }

func asTLS(u *url.URL) *url.URL {
	secure := *u
	secure.Scheme = "https"
	return &secure
}

func (j loopbackJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	j.CookieJar.SetCookies(asTLS(u), slices.DeleteFunc(slices.Clone(cookies), func(c *http.Cookie) bool {
		return strings.HasPrefix(c.Name, "__Host-") && (!c.Secure || c.Path != "/" || c.Domain != "")
	}))
}

func (j loopbackJar) Cookies(u *url.URL) []*http.Cookie { return j.CookieJar.Cookies(asTLS(u)) }

// browser is somebody's browser, without a window. It keeps cookies and follows redirects, and says
// of its calls that pages of the marketplace make them.
type browser struct {
	client *http.Client
	base   string
}

func (m openIDMarket) browser(t *testing.T) browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{&http.Client{Transport: m.provider.Client().Transport, Jar: loopbackJar{jar}}, m.Base()}
}

// does makes a call, follows redirects, and returns the address at which they end and what is there.
func (b browser) does(t *testing.T, method, address, token, body, mode string) (end *url.URL, status int, page []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Sec-Fetch-Mode", mode)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Request.URL, resp.StatusCode, page
}

// goes is its user, who goes to an address.
func (b browser) goes(t *testing.T, address string) (end *url.URL, status int, page []byte) {
	t.Helper()
	return b.does(t, http.MethodGet, address, "", "", "navigate")
}

// posts is a page of the marketplace, which makes a call.
func (b browser) posts(t *testing.T, path, token, body string) (status int, answer []byte) {
	t.Helper()
	_, status, answer = b.does(t, http.MethodPost, b.base+path, token, body, "cors")
	return status, answer
}

// signsIn goes to the provider, whose user agrees, and arrives at the site.
func (b browser) signsIn(t *testing.T) {
	t.Helper()
	if end, status, page := b.goes(t, b.base+openIDStart); end.Path != "/" {
		t.Fatalf("a sign-in: ended at %s with %d %s, want it at the site", end, status, page)
	}
}

// isRefused goes to an address and is told at the callback that nobody is signed in.
func (b browser) isRefused(t *testing.T, what, address string) {
	t.Helper()
	end, status, page := b.goes(t, address)
	if status != http.StatusUnauthorized {
		t.Errorf("%s: got %d at %s, want 401", what, status, end)
	}
	if got := trial.ErrorCode(page); got != "invalid_credentials" {
		t.Errorf("%s: got the error %q, want invalid_credentials", what, got)
	}
}

// session is what a page of the marketplace gets for the browser's cookie: a token and its user.
func (b browser) session(t *testing.T) (token, user string) {
	t.Helper()
	status, answer := b.posts(t, refresh, "", "")
	if status != http.StatusOK {
		t.Fatalf("to refresh: got %d %s, want 200", status, answer)
	}
	in := trial.Decode(t, answer)
	return trial.Text(t, in, "token"), trial.Text(t, in, "user", "id")
}

// hasNoSession fails the test if the browser's cookie is good for a session.
func (b browser) hasNoSession(t *testing.T, what string) {
	t.Helper()
	if status, answer := b.posts(t, refresh, "", ""); status != http.StatusUnauthorized {
		t.Errorf("%s: to refresh: got %d %s, want 401", what, status, answer)
	}
}

// heldBack goes to an address at which a sign-in begins, and returns where the provider would have
// sent the browser back.
func (m openIDMarket) heldBack(t *testing.T, b browser, address string) string {
	t.Helper()
	back := make(chan string, 1)
	m.provider.Instead(oidctest.Consent, func(_ http.ResponseWriter, r *http.Request) {
		sent := httptest.NewRecorder()
		m.provider.SendBack(sent, r, r.URL.Query().Get("state"))
		back <- sent.Header().Get("Location")
	})
	defer m.provider.Instead(oidctest.Consent, nil)
	end, status, page := b.goes(t, address)
	select {
	case held := <-back:
		return held
	default:
		t.Fatalf("a sign-in: ended at %s with %d %s, want it at the provider", end, status, page)
		return ""
	}
}

func TestAUserOfAnOpenIDProviderHasOneAccountInAllBrowsers(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := startOpenID(t)
	first, second := m.browser(t), m.browser(t)
	first.signsIn(t)
	token, user := first.session(t)
	if got := trial.Text(t, wantStatus(t, m.Market, http.StatusOK, http.MethodGet, ownUser, token, ""), "user",
		"user_id"); got != user {
		t.Errorf("the user of the token: got %s, want %s", got, user)
	}
	wantStatus(t, m.Market, http.StatusOK, http.MethodGet, "/api/v1/consumer/balance", token, "")
	second.signsIn(t)
	other, again := second.session(t)
	if again != user {
		t.Errorf("in another browser: got the user %s, want %s", again, user)
	}
	if status, answer := second.posts(t, "/api/v1/user/logout", other, `{"everywhere":true}`); status != http.StatusOK {
		t.Fatalf("to sign out everywhere: got %d %s, want 200", status, answer)
	}
	first.hasNoSession(t, "the first browser after that")
	wantStatus(t, m.Market, http.StatusUnauthorized, http.MethodGet, ownUser, token, "")
}

func TestAnOpenIDProviderThatAnswersForAnotherSignInSignsNobodyIn(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := startOpenID(t)
	b := m.browser(t)
	for claim, value := range map[string]string{
		"nonce": "of-another-sign-in", "aud": "another-client", "iss": "https://id.example.com",
	} {
		m.claims(claim, value)
		b.isRefused(t, "another "+claim, b.base+openIDStart)
		b.hasNoSession(t, "another "+claim)
	}
	m.claims("sub", "ada")
	m.provider.Instead(oidctest.Consent, func(w http.ResponseWriter, r *http.Request) {
		m.provider.SendBack(w, r, "of-another-sign-in")
	})
	b.isRefused(t, "another state", b.base+openIDStart)
	b.hasNoSession(t, "another state")

	m.provider.Instead(oidctest.Consent, nil)
	other, back := m.browser(t), m.heldBack(t, b, b.base+openIDStart)
	other.isRefused(t, "another browser", back)
	other.hasNoSession(t, "another browser")
	b.goes(t, back)
	b.session(t)
	m.browser(t).isRefused(t, "a sign-in that is done", back)
}

// An OpenID provider may not have looked who reads an e-mail, so its word on that takes no account over.
func TestAnEmailThatAnOpenIDProviderNamesOpensNoAccountOfAnother(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := startOpenID(t)
	ada := trial.Text(t, wantStatus(t, m.Market, http.StatusCreated, http.MethodPost, "/api/v1/user/signup", "",
		`{"email":"ada@example.com","password":"correct horse","display_name":"Ada"}`), "user", "id")
	for what, verified := range map[string]bool{"an unconfirmed e-mail": false, "a confirmed e-mail": true} {
		m.provider.Change(func(claims map[string]any) {
			claims["sub"], claims["email"], claims["email_verified"] = what, "ada@example.com", verified
		})
		b := m.browser(t)
		b.signsIn(t)
		token, user := b.session(t)
		if user == ada {
			t.Errorf("%s: got its user, want another", what)
		}
		own := wantStatus(t, m.Market, http.StatusOK, http.MethodGet, ownUser, token, "")
		if got, _ := trial.At(own, "user", "email").(string); got != "" {
			t.Errorf("%s: got a user with the e-mail %q, want none", what, got)
		}
	}
}
