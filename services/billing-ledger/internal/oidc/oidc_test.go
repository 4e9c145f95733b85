package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/oidctest"
)

// clientOf is a client of the provider under two names.
func clientOf(t *testing.T, p *oidctest.Provider, c clock.Clock) *Client {
	t.Helper()
	one := Issuer{Name: "local", URL: p.URL, ClientID: "client", Secret: config.NewSecret("hush"),
		RedirectURL: "https://api.example.com" + CallbackPath("local")}
	other := one
	other.Name = "other"
	client, err := New([]Issuer{one, other}, [][]byte{[]byte("secret")}, c, p.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// returned is what a browser brings back whose user has agreed.
func returned(t *testing.T, p *oidctest.Provider, c *Client) Returned {
	t.Helper()
	started, err := c.Start(t.Context(), "local", Link{})
	if err != nil {
		t.Fatal(err)
	}
	state, code := p.Agrees(t, started.URL)
	return Returned{Name: "local", State: state, Code: code, Flow: started.Flow}
}

func TestAUserIsWhomTheProviderNames(t *testing.T) {
	p := oidctest.New(t)
	c := clientOf(t, p, clock.System)
	first, err := c.Finish(t.Context(), returned(t, p, c))
	if err != nil {
		t.Fatal(err)
	}
	if first.Issuer != p.URL {
		t.Errorf("the issuer: got %q, want %q", first.Issuer, p.URL)
	}
	if first.Subject != "ada" {
		t.Errorf(`the subject: got %q, want "ada"`, first.Subject)
	}
	second, err := c.Finish(t.Context(), returned(t, p, c))
	if err != nil {
		t.Fatal(err)
	}
	if first.Nonce == second.Nonce {
		t.Errorf("the nonces of two sign-ins: got %x twice, want two", first.Nonce)
	}
	// Another replica ends what one has begun.
	if _, err := clientOf(t, p, clock.System).Finish(t.Context(), returned(t, p, c)); err != nil {
		t.Errorf("at another replica: got the error %v, want none", err)
	}
}

func TestASignInThatDidNotBeginInThisBrowserDoesNotCount(t *testing.T) {
	p := oidctest.New(t)
	at := clock.NewManual(time.Now())
	c := clientOf(t, p, at)
	foreign, err := New([]Issuer{c.issuers["local"].Issuer}, [][]byte{[]byte("another secret")}, at, p.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(r *Returned){
		"no flow":                      func(r *Returned) { r.Flow = nil },
		"a flow of another browser":    func(r *Returned) { r.Flow = returned(t, p, c).Flow },
		"a flow that was changed":      func(r *Returned) { r.Flow[20] ^= 1 },
		"a flow of somebody else":      func(r *Returned) { *r = returned(t, p, foreign) },
		"a long flow":                  func(r *Returned) { r.Flow = make([]byte, 1<<20) },
		"no state":                     func(r *Returned) { r.State = "" },
		"another state":                func(r *Returned) { r.State += "A" },
		"another issuer":               func(r *Returned) { r.Name = "other" },
		"no code":                      func(r *Returned) { r.Code = "" },
		"a long code":                  func(r *Returned) { r.Code = strings.Repeat("x", maxCode+1) },
		"a code that nobody gave":      func(r *Returned) { r.Code = "x" },
		"a code of another sign-in":    func(r *Returned) { r.Code = returned(t, p, c).Code },
		"a code that was redeemed":     func(r *Returned) { _, _ = c.Finish(t.Context(), *r) },
		"a sign-in that took too long": func(*Returned) { at.Advance(Life) },
	} {
		r := returned(t, p, c)
		change(&r)
		if _, err := c.Finish(t.Context(), r); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got the error %v, want %v", what, err, ErrRefused)
		}
	}
	r := returned(t, p, c)
	r.Name = "nobody"
	if _, err := c.Finish(t.Context(), r); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown issuer: got the error %v, want %v", err, ErrUnknown)
	}
	if _, err := c.Start(t.Context(), "nobody", Link{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("to start at an unknown issuer: got the error %v, want %v", err, ErrUnknown)
	}
}

func TestAnIDTokenThatDoesNotHoldSignsNobodyIn(t *testing.T) {
	p := oidctest.New(t)
	c := clientOf(t, p, clock.System)
	set := func(claim string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[claim] = value }
	}
	for what, change := range map[string]func(map[string]any){
		"for another client":  set("aud", "another"),
		"of another issuer":   set("iss", "https://evil.example.com"),
		"that is over":        set("exp", time.Now().Add(-time.Hour).Unix()),
		"of another sign-in":  set("nonce", "another"),
		"without a nonce":     func(claims map[string]any) { delete(claims, "nonce") },
		"of nobody":           set("sub", ""),
		"of a long name":      set("sub", strings.Repeat("x", maxSubject+1)),
		"for us and another":  set("aud", []string{"client", "another"}),
		"got by another":      set("azp", "another"),
		"that is no id token": func(claims map[string]any) { clear(claims) },
	} {
		p.Change(change)
		if _, err := c.Finish(t.Context(), returned(t, p, c)); !errors.Is(err, ErrRefused) {
			t.Errorf("an id token %s: got the error %v, want %v", what, err, ErrRefused)
		}
	}
	p.Change(func(claims map[string]any) { claims["aud"], claims["azp"] = []string{"client", "another"}, "client" })
	if _, err := c.Finish(t.Context(), returned(t, p, c)); err != nil {
		t.Errorf("an id token for several, got by us: got the error %v, want none", err)
	}
	p.Change(func(map[string]any) {})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.SignWith(other)
	if _, err := c.Finish(t.Context(), returned(t, p, c)); !errors.Is(err, ErrRefused) {
		t.Errorf("an id token of another key: got the error %v, want %v", err, ErrRefused)
	}
}

func TestAProviderThatDoesNotAnswerAsItShouldIsAway(t *testing.T) {
	p := oidctest.New(t)
	c := clientOf(t, p, clock.System)
	for what, tokens := range map[string]http.HandlerFunc{
		"no id token": func(w http.ResponseWriter, _ *http.Request) {
			p.Answer(w, map[string]any{"access_token": "x", "token_type": "Bearer"})
		},
		"a fault":             refuses(http.StatusInternalServerError, "server_error"),
		"our secret is wrong": refuses(http.StatusUnauthorized, "invalid_client"),
		"our name is unknown": refuses(http.StatusBadRequest, "invalid_client"),
		"we ask too often":    refuses(http.StatusTooManyRequests, "slow_down"),
		"a way elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
	} {
		p.Instead(oidctest.Tokens, tokens)
		if _, err := c.Finish(t.Context(), returned(t, p, c)); !errors.Is(err, ErrAway) {
			t.Errorf("%s: got the error %v, want %v", what, err, ErrAway)
		}
	}
	if n := p.Calls("/elsewhere"); n != 0 {
		t.Errorf("calls where the provider leads to: got %d, want 0", n)
	}
	r := returned(t, p, c)
	p.Close()
	if _, err := c.Finish(t.Context(), r); !errors.Is(err, ErrAway) {
		t.Errorf("closed: got the error %v, want %v", err, ErrAway)
	}
}

// refuses is a token endpoint that refuses a code.
func refuses(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"` + code + `"}`)) // the client finds out
	}
}

// Providers have words of their own for a code that they do not take.
func TestACodeThatTheProviderDoesNotTakeIsRefusedWhateverItSays(t *testing.T) {
	p := oidctest.New(t)
	c := clientOf(t, p, clock.System)
	for what, tokens := range map[string]http.HandlerFunc{
		"invalid_grant":       refuses(http.StatusBadRequest, "invalid_grant"),
		"invalid_request":     refuses(http.StatusBadRequest, "invalid_request"),
		"bad_code":            refuses(http.StatusForbidden, "bad_verification_code"),
		"a success in name":   refuses(http.StatusOK, "invalid_grant"),
		"nothing but a 404":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"a page with its 400": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<p>", http.StatusBadRequest) },
	} {
		p.Instead(oidctest.Tokens, tokens)
		if _, err := c.Finish(t.Context(), returned(t, p, c)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got the error %v, want %v", what, err, ErrRefused)
		}
	}
}

// A first part that is valid would be taken, were the answer not bounded.
func TestAnAnswerIsReadUpToItsBound(t *testing.T) {
	for what, size := range map[string]int{"at the bound": maxAnswer, "beyond it": maxAnswer + 1} {
		p := oidctest.New(t)
		p.Instead(oidctest.Discovery, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			text := `{"issuer":"` + p.URL + `","authorization_endpoint":"` + p.URL + `/auth","token_endpoint":"` + p.URL +
				`/token","jwks_uri":"` + p.URL + `/keys"`
			_, _ = w.Write([]byte(text + strings.Repeat(" ", size-len(text)-1) + "}"))
		})
		_, err := clientOf(t, p, clock.System).Start(t.Context(), "local", Link{})
		if got, want := err == nil, size == maxAnswer; got != want {
			t.Errorf("%s: got the error %v, want an answer: %t", what, err, want)
		}
	}
}

func TestADiscoveryThatFailedIsReadAgainAfterAPause(t *testing.T) {
	p := oidctest.New(t)
	at := clock.NewManual(time.Now())
	c := clientOf(t, p, at)
	p.Instead(oidctest.Discovery, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(strings.Repeat("x", 10*maxReason)))
	})
	for range 3 {
		_, err := c.Start(t.Context(), "local", Link{})
		if !errors.Is(err, ErrAway) {
			t.Fatalf("got the error %v, want %v", err, ErrAway)
		}
		if n := len(err.Error()); n > 2*maxReason {
			t.Errorf("the error: got %d bytes, want at most %d", n, 2*maxReason)
		}
	}
	if n := p.Calls(oidctest.Discovery); n != 1 {
		t.Errorf("calls within the pause: got %d, want 1", n)
	}
	p.Instead(oidctest.Discovery, nil)
	at.Advance(retryInterval)
	for range 3 {
		if _, err := c.Start(t.Context(), "local", Link{}); err != nil {
			t.Fatalf("after the pause: got the error %v, want none", err)
		}
	}
	if n := p.Calls(oidctest.Discovery); n != 2 {
		t.Errorf("calls after the pause: got %d, want 2", n)
	}
}

func TestASlowProviderHasNoMoreCallsThanPlaces(t *testing.T) {
	p := oidctest.New(t)
	c := clientOf(t, p, clock.System)
	for range maxCalls {
		if _, err := c.issuers["local"].enter(); err != nil {
			t.Fatalf("a place: got the error %v, want none", err)
		}
	}
	r := Returned{Name: "local", Code: "x"}
	var err error
	if r.Flow, err = c.flows[0].seal(flow{Issuer: "local", EndsAt: time.Now().Add(Life).Unix()}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(t.Context(), r); !errors.Is(err, ErrAway) {
		t.Errorf("to finish: got the error %v, want %v", err, ErrAway)
	}
	if _, err := c.Start(t.Context(), "local", Link{}); !errors.Is(err, ErrAway) {
		t.Errorf("to start: got the error %v, want %v", err, ErrAway)
	}
	if n := p.Calls(oidctest.Discovery); n != 0 {
		t.Errorf("calls: got %d, want 0", n)
	}
	if _, err := c.Start(t.Context(), "other", Link{}); err != nil {
		t.Errorf("another provider: got the error %v, want none", err)
	}
}

func TestAProviderIsCalledByHTTPSAlone(t *testing.T) {
	for _, one := range []string{"authorization_endpoint", "token_endpoint"} {
		p := oidctest.New(t)
		p.Says(one, strings.Replace(p.URL, "https", "http", 1)+"/plain")
		if _, err := clientOf(t, p, clock.System).Start(t.Context(), "local", Link{}); !errors.Is(err, ErrAway) {
			t.Errorf("a plain %s: got the error %v, want %v", one, err, ErrAway)
		}
	}
	var plain atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { plain.Add(1) }))
	defer server.Close()
	p := oidctest.New(t)
	p.Says("jwks_uri", server.URL)
	c := clientOf(t, p, clock.System)
	if _, err := c.Finish(t.Context(), returned(t, p, c)); err == nil {
		t.Error("plain keys: got no error, want one")
	}
	if n := plain.Load(); n != 0 {
		t.Errorf("calls of plain keys: got %d, want 0", n)
	}
}

// The provider of this test is on loopback, which is private.
func TestAProviderIsNotCalledAtAPrivateAddress(t *testing.T) {
	p := oidctest.New(t)
	c, err := New([]Issuer{{Name: "local", URL: p.URL}}, [][]byte{[]byte("secret")}, clock.System, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), "local", Link{}); !errors.Is(err, ErrAway) {
		t.Errorf("got the error %v, want %v", err, ErrAway)
	} else if !strings.Contains(err.Error(), dialguard.ErrPrivate.Error()) {
		t.Errorf("got the error %v, want it to say %v", err, dialguard.ErrPrivate)
	}
	if n := p.Calls(oidctest.Discovery); n != 0 {
		t.Errorf("calls: got %d, want 0", n)
	}
}

func TestACodeIsShownOnceInTheWayThatTheProviderTakes(t *testing.T) {
	for what, methods := range map[string]any{
		"nothing said": nil, "the header": []string{"client_secret_basic", "client_secret_post"},
		"the form": []string{"client_secret_post"},
	} {
		p := oidctest.New(t)
		if methods != nil {
			p.Says("token_endpoint_auth_methods_supported", methods)
		}
		c := clientOf(t, p, clock.System)
		r := returned(t, p, c)
		r.Code = "x" // before any that is taken, by which a library could have learned the way
		_, _ = c.Finish(t.Context(), r)
		if _, err := c.Finish(t.Context(), returned(t, p, c)); err != nil {
			t.Errorf("%s: got the error %v, want none", what, err)
		}
		if n := p.Calls(oidctest.Tokens); n != 2 {
			t.Errorf("%s: calls with two codes: got %d, want 2", what, n)
		}
	}
}

func TestIssuersAreReadOneALine(t *testing.T) {
	const line = "google https://accounts.google.com 1.apps hush https://api.example.com/api/v1/user/oidc/google/callback"
	all, err := ParseIssuers("\n" + line + "\n" + strings.ReplaceAll(line, "google/", "two/")[len("google"):])
	if err == nil {
		t.Errorf("a line without a name: got %v, want an error", all)
	}
	if all, err = ParseIssuers(line); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("issuers: got %d, want 1", len(all))
	}
	if got := all[0].Secret.Reveal(); got != "hush" {
		t.Errorf(`the secret: got %q, want "hush"`, got)
	}
	for what, text := range map[string]string{
		"twice":              line + "\n" + line,
		"http":               strings.Replace(line, "https://accounts", "http://accounts", 1),
		"a large name":       strings.Replace(line, "google", "Google", 1),
		"another callback":   strings.Replace(line, "/google/callback", "/other/callback", 1),
		"a plain callback":   strings.Replace(line, "https://api.example", "http://api.example", 1),
		"a word more":        line + " more",
		"a query":            strings.Replace(line, "google.com ", "google.com/?a=b ", 1),
		"a long issuer":      strings.Replace(line, "google.com ", "google.com/"+strings.Repeat("x", maxURL)+" ", 1),
		"a callback's query": line + "?a=b",
		"a callback of one":  "google https://accounts.google.com 1.apps hush /callback",
	} {
		_, err := ParseIssuers(text)
		if err == nil {
			t.Errorf("%s: got no error, want one", what)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got the error %v, want it without the secret", what, err)
		}
	}
	var many []string
	for i := range MaxIssuers + 1 {
		many = append(many, strings.ReplaceAll(line, "google", "google"+strconv.Itoa(i)))
	}
	if _, err := ParseIssuers(strings.Join(many, "\n")); err == nil {
		t.Error("one too many: got no error, want one")
	}
	if all, err := ParseIssuers(strings.Join(many[1:], "\r\n")); err != nil {
		t.Errorf("as many as there may be: got the error %v, want none", err)
	} else if len(all) != MaxIssuers {
		t.Errorf("as many as there may be: got %d, want %d", len(all), MaxIssuers)
	}
	if all, err := ParseIssuers(""); err != nil {
		t.Errorf("none: got the error %v, want none", err)
	} else if len(all) != 0 {
		t.Errorf("none: got %d, want 0", len(all))
	}
}

func TestTheFlowOfALinkComesBackWithItsUserAndSignsNobodyIn(t *testing.T) {
	p := oidctest.New(t)
	c := clientOf(t, p, clock.System)
	for what, link := range map[string]Link{"a sign-in": {}, "a link": {User: "u", Session: "s"}} {
		started, err := c.Start(t.Context(), "local", link)
		if err != nil {
			t.Fatal(err)
		}
		state, code := p.Agrees(t, started.URL)
		who, err := c.Finish(t.Context(), Returned{Name: "local", State: state, Code: code, Flow: started.Flow})
		if err != nil {
			t.Fatal(err)
		}
		if who.Link != link {
			t.Errorf("%s: got the link %v, want %v", what, who.Link, link)
		}
	}
	// An earlier release knows flows of sign-ins alone.
	sealed, err := c.flows[0].seal(flow{Issuer: "local", Link: Link{User: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	size := c.flows[0].aead.NonceSize()
	if _, err := c.flows[0].aead.Open(nil, sealed[:size], sealed[size:], Link{}.label()); err == nil {
		t.Error("the flow of a link, as that of a sign-in: got it opened, want it refused")
	}
}

// While the installation changes its pepper, a browser may bring back a flow of the older one.
func TestAFlowOfThePreviousSecretOpens(t *testing.T) {
	older, newer := []byte("older"), []byte("newer")
	before, err := newSealers([][]byte{older})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := before[0].seal(flow{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secrets [][]byte
		want    bool
	}{"both": {[][]byte{newer, older}, true}, "the newer one alone": {[][]byte{newer}, false}} {
		all, err := newSealers(c.secrets)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := all.open(sealed); got != c.want {
			t.Errorf("%s: opens: got %v, want %v", name, got, c.want)
		}
	}
}
