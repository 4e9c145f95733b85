// Package oidctest has an OpenID provider for tests: discovery, keys, a page on which its user
// agrees, and codes with PKCE.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
)

// Discovery, Consent and Tokens are the paths of pages of a provider.
const (
	Discovery = "/.well-known/openid-configuration"
	Consent   = "/auth"
	Tokens    = "/token"
)

// Provider is an OpenID provider on this machine, with one client, "client" with the secret "hush", and
// one user, "ada".
type Provider struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu sync.Mutex
	// asked are the sign-ins that its user agreed to, by their codes.
	asked map[string]url.Values
	// change alters the claims of id tokens, and sign how they are signed.
	change func(claims map[string]any)
	sign   *rsa.PrivateKey
	// says is what its discovery says, and answers answer in the place of its pages, by their paths.
	says    map[string]any
	answers map[string]http.HandlerFunc
	// calls counts the calls of its pages.
	calls map[string]int
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// New starts a provider that ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{key: key, sign: key, asked: map[string]url.Values{}, change: func(map[string]any) {},
		answers: map[string]http.HandlerFunc{}, calls: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Discovery, func(w http.ResponseWriter, _ *http.Request) { p.Answer(w, p.says) })
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.Answer(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET "+Consent, func(w http.ResponseWriter, r *http.Request) {
		p.SendBack(w, r, r.URL.Query().Get("state"))
	})
	mux.HandleFunc("POST "+Tokens, p.redeem)
	p.Server = httptest.NewTLSServer(p.counted(mux))
	p.says = map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + Consent, "token_endpoint": p.URL + Tokens,
		"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
	}
	t.Cleanup(p.Close)
	return p
}

// counted counts calls, and lets what Instead has set answer them.
func (p *Provider) counted(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls[r.URL.Path]++
		answer := p.answers[r.URL.Path]
		p.mu.Unlock()
		if answer == nil {
			answer = pages.ServeHTTP
		}
		answer(w, r)
	})
}

// Answer answers with JSON.
func (p *Provider) Answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client finds out
}

// Agrees is its user, who signs in at the address that a browser was sent to. It returns the state and
// the code that the browser brings back.
func (p *Provider) Agrees(t testing.TB, address string) (state, code string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if want := p.URL + Consent; !strings.HasPrefix(address, want+"?") {
		t.Fatalf("the browser goes to %q, want %q", address, want)
	}
	return u.Query().Get("state"), p.agreed(u.Query())
}

// agreed returns the code of a sign-in that its user agreed to.
func (p *Provider) agreed(asked url.Values) (code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code = rand.Text()
	p.asked[code] = asked
	return code
}

// SendBack answers a browser whose user agrees: it goes back with a code and that state.
func (p *Provider) SendBack(w http.ResponseWriter, r *http.Request, state string) {
	asked := r.URL.Query()
	back := url.Values{"state": {state}, "code": {p.agreed(asked)}}
	http.Redirect(w, r, asked.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound) //nolint:gosec // of a test
}

// Authority returns, as PEM, the certificate that verifies the provider's own.
func (p *Provider) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
}

// redeem is the token endpoint. It takes a code once, of our client alone, and with its verifier.
func (p *Provider) redeem(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.asked[r.PostFormValue("code")]
	delete(p.asked, r.PostFormValue("code"))
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || id != "client" || secret != "hush" || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("code_challenge") != b64(challenge[:]) ||
		asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`)) // the client finds out
		return
	}
	now := clock.System.Now()
	claims := map[string]any{"iss": p.URL, "aud": "client", "sub": "ada", "nonce": asked.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "email": "ada@example.com", "email_verified": true}
	p.change(claims)
	p.Answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": p.signedLocked(claims)})
}

func (p *Provider) signedLocked(claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err) // claims are texts and numbers
	}
	text := b64([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + b64(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.sign, crypto.SHA256, sum[:])
	if err != nil {
		panic(err) // the key is long enough
	}
	return text + "." + b64(signature)
}

// Change has the claims of id tokens altered.
func (p *Provider) Change(change func(claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// SignWith has id tokens signed by another key than the published one.
func (p *Provider) SignWith(key *rsa.PrivateKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = key
}

// Instead has a page answer otherwise; nil has it answer as it did.
func (p *Provider) Instead(path string, answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = answer
}

// Says has the discovery say something else. It is for before the first call.
func (p *Provider) Says(name string, value any) { p.says[name] = value }

// Calls is how often a page was called.
func (p *Provider) Calls(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}
