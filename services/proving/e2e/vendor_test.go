package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

const (
	frontierModel = "openai/frontier"
	frontierKey   = "sk-platform-0123456789abcdef"
	// ofAccount is what the vendor says of the platform's account.
	ofAccount = "org-platform-4711"
)

// trustServersOfTests makes this process trust the certificate of package httptest's servers, as it
// trusts the authorities of the system.
func trustServersOfTests() {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	file, err := os.CreateTemp("", "authority-*.pem")
	if err == nil {
		defer func() { _ = os.Remove(file.Name()) }()
		err = errors.Join(pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			file.Close())
	}
	if err == nil {
		err = os.Setenv("SSL_CERT_FILE", file.Name())
	}
	if err == nil {
		_, err = x509.SystemCertPool() // reads the file, once for this process
	}
	if err == nil {
		err = os.Unsetenv("SSL_CERT_FILE")
	}
	if err != nil {
		panic(err)
	}
}

// frontier is a vendor: a TLS server in front of an engine, at which the platform has an account.
type frontier struct {
	*httptest.Server
	// limited makes the server answer 429. foreign counts the requests without the platform's key.
	limited atomic.Bool
	foreign atomic.Int64
}

func startFrontier(t *testing.T) *frontier {
	t.Helper()
	engine := fakeengine.New(t)
	engine.Script("frontier-1", fakeengine.Behaviour{Tokens: []string{"Hello", " there", "!"}, Usage: []string{
		`{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":4}}`}})
	to, err := url.Parse(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := &frontier{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+frontierKey:
			f.foreign.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		case f.limited.Load() && r.Method == http.MethodPost:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"Rate limit reached for `+ofAccount+
				`","type":"tokens","code":"rate_limit_exceeded"}}`)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// startGatewayMarket is a marketplace with a gateway model, which a vendor serves.
func startGatewayMarket(t *testing.T, f *frontier) (m *trial.Market, vendor string) {
	t.Helper()
	m = trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error", "SVC_HUB_DEVELOPMENT_ENDPOINTS=true")
	m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+frontierModel, `{"name":"Frontier","kind":"gateway",
		"input_price":"2","output_price":"8","payout_input_price":"1.5","payout_output_price":"6",
		"payout_cached_input_price":"0.375","context_length":8192,"max_output_tokens":1024,"capabilities":["chat"]}`)
	request := `{"name":"Frontier Labs","base_url":"` + f.URL + `/v1","api_key":"` + frontierKey +
		`","models":[{"model_id":"` + frontierModel + `","local_model":"frontier-1","capacity":64}],
		"idempotency_key":"once"}`
	trial.Until(t, "the hub has heard of the gateway model", func() bool {
		token := m.Env["SVC_ADMIN_TOKEN"]
		status, _, body := trial.CallAt(t, m.AdminURL(), http.MethodPost, "/api/v1/admin/vendors", token, request)
		if status != http.StatusOK {
			return false
		}
		if strings.Contains(string(body), frontierKey) {
			t.Error("the answer has the vendor's key")
		}
		vendor = trial.Text(t, trial.Decode(t, body), "vendor", "provider_id")
		return true
	})
	m.WaitOffered(t, frontierModel, vendor)
	return m, vendor
}

// A gateway model is served and billed like any other model, and its vendor is owed its own price.
func TestAGatewayModelIsServedByItsVendorAndPaidByItsPrice(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	f := startFrontier(t)
	m, vendor := startGatewayMarket(t, f)
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)

	servedBy(t, m, key, trial.Chat(frontierModel, ""), vendor, "external")
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key,
		trial.Chat(frontierModel, `,"stream":true`))
	if status != http.StatusOK {
		t.Fatalf("a stream: status: got %d, want 200, with %s", status, body)
	}
	if got := header.Get("X-Svc-Provider-Name"); got != "Frontier Labs" {
		t.Errorf("the provider's name: got %q, want %q", got, "Frontier Labs")
	}
	receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	if got := [2]any{receipt["prompt_tokens"], receipt["completion_tokens"]}; got != [2]any{10.0, 3.0} {
		t.Errorf("billed: got %v tokens, want 10 of prompt and 3 of completion", got)
	}
	if got := receipt["cost_usd_str"]; got != "0.000044" {
		t.Errorf("the bill: got %v, want 0.000044", got) // 10 at 2 and 3 at 8 USD a million
	}
	// 6 at 1.5, 4 of the cache at 0.375 and 3 at 6 USD a million.
	wantOwed(t, m, vendor, header.Get(trial.RequestIDHeader), 6*1500+4*375+3*6000)

	m.PutModel(t, "test/open")
	engine := fakeengine.New(t)
	engine.Script("test/open", fakeengine.Behaviour{})
	agent := m.Join(t, "agent", engine.URL, "test/open")
	servedBy(t, m, key, trial.Chat("test/open", ""), agent.ID, "websocket")
	if n := f.foreign.Load(); n != 0 {
		t.Errorf("requests without the platform's key: got %d, want 0", n)
	}
	m.NothingHeld(t, account)
	m.Balanced(t)
}

// wantOwed fails the test unless line 8 of the ledger for a request owes its vendor want nano-USD.
func wantOwed(t *testing.T, m *trial.Market, vendor, request string, want int64) {
	t.Helper()
	db, err := pgxpool.New(t.Context(), m.Env["SVC_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var line int
	var owed int64
	err = db.QueryRow(t.Context(), `SELECT line, amount FROM billing.usage_leg
		WHERE request_id = $1 AND account_kind = 'l:vendor:payable' AND owner_id = $2`, request, vendor).Scan(&line, &owed)
	if err != nil {
		t.Fatalf("the vendor's line: %v", err)
	}
	if line != 8 {
		t.Errorf("the line of the table of postings: got %d, want 8", line)
	}
	if owed != want {
		t.Errorf("owed to the vendor: got %d nano-USD, want %d", owed, want)
	}
}

// What a vendor says of the platform's account is passed on to nobody, and the vendor is left alone for
// as long as it asks.
func TestAVendorThatIsBusyIsLeftAloneAndItsWordsStayHere(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	f := startFrontier(t)
	m, _ := startGatewayMarket(t, f)
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)
	f.limited.Store(true)
	for _, more := range []string{"", `,"stream":true`} {
		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(frontierModel, more))
		if status != http.StatusServiceUnavailable {
			t.Errorf("%q: status: got %d, want 503, with %s", more, status, body)
		}
		if strings.Contains(string(body), ofAccount) {
			t.Errorf("%q: got %s, want nothing of the account", more, body)
		}
		if header.Get("X-Svc-Provider-Id") != "" {
			t.Errorf("%q: got a provider for a request that was not served", more)
		}
	}
	f.limited.Store(false)
	trial.Until(t, "the vendor serves again", func() bool {
		status, _, _ := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(frontierModel, ""))
		return status == http.StatusOK
	})
	m.NothingHeld(t, account)
}

// A provider that is no vendor could otherwise sell any answer at a vendor's price.
func TestAWebSocketProviderServesNoGatewayModel(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m, vendor := startGatewayMarket(t, startFrontier(t))
	p := m.Provider(t, "agent")
	agent, err := fakeagent.Dial(t.Context(), m.WSURL()+"/ws", fakeagent.Options{Key: p.Key,
		Models: []string{frontierModel}})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if got := agent.Ack().GetRefusedModels()[frontierModel]; !strings.Contains(got, "vendor alone") {
		t.Errorf("refused: got %q, want the reason", got)
	}
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)
	servedBy(t, m, key, trial.Chat(frontierModel, ""), vendor, "external")
	servedBy(t, m, key, trial.Chat(frontierModel, ""), vendor, "external", "X-Svc-Provider", p.ID) // pinned in vain
	only := trial.Chat(frontierModel, `,"provider":{"order":["`+p.ID+`"],"allow_fallbacks":false}`)
	if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key, only); status == http.StatusOK {
		t.Errorf("of the agent alone: got %s, want an error", body)
	}
}
