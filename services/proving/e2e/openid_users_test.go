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

// navigate opens an address as its user would.
func (b browser) navigate(t *testing.T, address string) (end *url.URL, status int, page []byte) {
	t.Helper()
	return b.does(t, http.MethodGet, address, "", "", "navigate")
}

// post makes a call as a page of the marketplace would.
func (b browser) post(t *testing.T, path, token, body string) (status int, answer []byte) {
	t.Helper()
	_, status, answer = b.does(t, http.MethodPost, b.base+path, token, body, "cors")
	return status, answer
}

// signsIn goes to the provider, whose user agrees, and arrives at the site.
func (b browser) signsIn(t *testing.T) {
	t.Helper()
	if end, status, page := b.navigate(t, b.base+openIDStart); end.Path != "/app/" {
		t.Fatalf("a sign-in: ended at %s with %d %s, want it at the console", end, status, page)
	}
}

// isRefused goes to an address and is told at the callback that nobody is signed in.
func (b browser) isRefused(t *testing.T, what, address string) {
	t.Helper()
	end, status, page := b.navigate(t, address)
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
	status, answer := b.post(t, refresh, "", "")
	if status != http.StatusOK {
		t.Fatalf("to refresh: got %d %s, want 200", status, answer)
	}
	in := trial.Decode(t, answer)
	return trial.Text(t, in, "token"), trial.Text(t, in, "user", "id")
}

// hasNoSession fails the test if the browser's cookie is good for a session.
func (b browser) hasNoSession(t *testing.T, what string) {
	t.Helper()
	if status, answer := b.post(t, refresh, "", ""); status != http.StatusUnauthorized {
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
	end, status, page := b.navigate(t, address)
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
	if status, answer := second.post(t, "/api/v1/user/logout", other, `{"everywhere":true}`); status != http.StatusOK {
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
	b.navigate(t, back)
	b.session(t)
	m.browser(t).isRefused(t, "a sign-in that is done", back)
}

// An OpenID provider may not have checked who reads an e-mail, so an e-mail that it names must not open
// that user's account.
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

// The routes of the ways in which a user signs in.
const (
	identities = "/api/v1/user/me/identities"
	linkOpenID = identities + "/oidc/local"
)

// walletUser signs in the user of a wallet, and returns the user's token and id.
func (m openIDMarket) walletUser(t *testing.T, p purse, want int) (token, user string) {
	t.Helper()
	in := wantStatus(t, m.Market, want, http.MethodPost, "/api/v1/user/wallet/login", "",
		p.proof(t, p.asked(t, m.Market, "/api/v1/user/wallet/challenge", "")))
	return trial.Text(t, in, "token"), trial.Text(t, in, "user", "id")
}

// beginLink begins a link as a page would, and returns the provider's address.
func (b browser) beginLink(t *testing.T, token string) string {
	t.Helper()
	status, answer := b.post(t, linkOpenID, token, "")
	if status != http.StatusOK {
		t.Fatalf("to begin a link: got %d %s, want 200", status, answer)
	}
	return trial.Text(t, trial.Decode(t, answer), "url")
}

// identitiesOf lists the ids of a user's identities by their issuers.
func (m openIDMarket) identitiesOf(t *testing.T, token string) map[string]string {
	t.Helper()
	found := map[string]string{}
	all, _ := wantStatus(t, m.Market, http.StatusOK, http.MethodGet, identities, token, "")["identities"].([]any)
	for _, one := range all {
		found[trial.Text(t, one, "issuer")] = trial.Text(t, one, "identity_id")
	}
	return found
}

func TestAUserLinksAnOpenIDIdentityAndUnlinksIt(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := startOpenID(t)
	b, wallet := m.browser(t), newPurse(31)
	token, user := m.walletUser(t, wallet, http.StatusCreated)
	back := m.heldBack(t, b, b.beginLink(t, token))
	m.browser(t).isRefused(t, "the callback of a link in another browser", back)
	if end, status, page := b.navigate(t, back); end.Path != "/app/settings" {
		t.Fatalf("the link: ended at %s with %d %s, want it at the console", end, status, page)
	}
	b.hasNoSession(t, "a link")
	b.isRefused(t, "a link that is done", back)

	other := m.browser(t)
	other.signsIn(t)
	token, again := other.session(t)
	if again != user {
		t.Errorf("a sign-in by the linked identity: got the user %s, want %s", again, user)
	}
	all := m.identitiesOf(t, token)
	wantStatus(t, m.Market, http.StatusOK, http.MethodDelete, identities+"/"+all["wallet"], token, "")
	wantStatus(t, m.Market, http.StatusConflict, http.MethodDelete, identities+"/"+all[m.provider.URL], token, "")
	m.links(t, wallet, token)
	wantStatus(t, m.Market, http.StatusOK, http.MethodDelete, identities+"/"+all[m.provider.URL], token, "")
	stranger := m.browser(t)
	stranger.signsIn(t)
	if _, opened := stranger.session(t); opened == user {
		t.Error("a sign-in by the unlinked identity: got its former user, want another")
	}
}

// links links a wallet to the user of a token.
func (m openIDMarket) links(t *testing.T, p purse, token string) {
	t.Helper()
	const link = identities + "/wallet"
	wantStatus(t, m.Market, http.StatusOK, http.MethodPost, link, token,
		p.proof(t, p.asked(t, m.Market, link+"/challenge", token)))
}

func TestAnOpenIDIdentityOfAnotherUserIsLinkedToNobody(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := startOpenID(t)
	owner := m.browser(t)
	owner.signsIn(t)
	_, user := owner.session(t)
	b := m.browser(t)
	token, _ := m.walletUser(t, newPurse(32), http.StatusCreated)
	_, status, page := b.navigate(t, b.beginLink(t, token))
	if status != http.StatusConflict {
		t.Errorf("to link it: got %d, want 409", status)
	}
	if got := trial.ErrorCode(page); got != "already_exists" {
		t.Errorf("to link it: got the error %q, want already_exists", got)
	}
	if strings.Contains(string(page), user) {
		t.Errorf("to link it: got %s, want it without the user", page)
	}
	if n := len(m.identitiesOf(t, token)); n != 1 {
		t.Errorf("identities: got %d, want the wallet alone", n)
	}
	owner.signsIn(t)
	if _, again := owner.session(t); again != user {
		t.Errorf("its owner: got the user %s, want %s", again, user)
	}
}
