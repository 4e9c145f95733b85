package settlement

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/store"
)

// lie is what an RPC says in the place of the truth, in its answers to a method.
type lie struct {
	method string
	truth  *regexp.Regexp
	says   string
}

// liar is another RPC of a chain, which lies now and then.
type liar struct {
	url string
	now atomic.Pointer[lie]
}

func newLiar(t *testing.T, of *devchain.Chain) *liar {
	t.Helper()
	to, err := url.Parse(of.URL)
	must(t, err)
	l := &liar{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(asked))
		r.Header.Del("Accept-Encoding")
		told := httptest.NewRecorder()
		proxy.ServeHTTP(told, r)
		answer := told.Body.Bytes()
		if now := l.now.Load(); now != nil && bytes.Contains(asked, []byte(now.method)) {
			answer = now.truth.ReplaceAll(answer, []byte(now.says))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // the client may have left
	}))
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// nodes has the adopter read the chain by some RPCs.
func (l *losing) nodes(t *testing.T, urls ...string) {
	t.Helper()
	cfg := l.cfg
	cfg.RPCs = nil
	for _, one := range urls {
		cfg.RPCs = append(cfg.RPCs, config.NewSecret(one))
	}
	reader, err := evm.Dial(cfg)
	must(t, err)
	t.Cleanup(reader.Close)
	c, err := adoptable(cfg)
	must(t, err)
	c.Node = reader
	l.adopter = adopt.New(adopt.Deps{Store: store.Adoptions{Store: l.store}, Signer: peers.ChainSigner{Client: l.signer},
		Books: l.books, Payees: l.books, Chains: []adopt.Chain{c}})
}

var (
	everything = regexp.MustCompile(`(?s)"result":.*}$`)
	success    = regexp.MustCompile(`"status":"0x1"`)
	payees     = regexp.MustCompile(`7700000000`)
	content    = regexp.MustCompile(`"transactions":\[.*?\]`)
)

// lies are what one of two RPCs may say. What all say of a transaction is not believed without its sender's signature.
var lies = map[string]struct {
	lie
	all bool
}{
	"nothing was sent":          {lie: lie{"eth_getTransactionCount", everything, `"result":"0x0"}`}},
	"more was sent":             {lie: lie{"eth_getTransactionCount", everything, `"result":"0x2"}`}},
	"it reverted":               {lie: lie{"eth_getTransactionReceipt", success, `"status":"0x0"`}},
	"there is no receipt":       {lie: lie{"eth_getTransactionReceipt", everything, `"result":null}`}},
	"it paid somebody":          {lie: lie{"eth_getBlockByNumber", payees, `6600000000`}},
	"all say that it paid them": {lie: lie{"eth_getBlockByNumber", payees, `6600000000`}, all: true},
	"its block is empty":        {lie: lie{"eth_getBlockByNumber", content, `"transactions":[]`}},
}

func TestAnRPCThatLiesHasNothingFalseAdopted(t *testing.T) {
	t.Parallel()
	l := newLosing(t, chain.Base)
	paid := l.want(t, 1, 100)
	l.until(t, paid, payout.Confirmed)
	must(t, l.chain.Mine(t.Context(), 3))
	l.lose(t)
	other := newLiar(t, l.chain)
	by := adopt.By{Actor: "operator:ann", Reason: "restored from an hour ago"}
	for name, c := range lies {
		l.nodes(t, l.chain.URL, other.url)
		if c.all {
			l.nodes(t, other.url, other.url)
		}
		other.now.Store(&c.lie)
		plan, err := l.adopter.Adopt(t.Context(), l.cfg.ID, time.Time{}, adopt.Words{}, by)
		other.now.Store(nil)
		if err == nil {
			t.Errorf("%s: got the plan %s, want an error", name, lines(plan))
		}
		var calls, payouts int
		must(t, l.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM chain_call), (SELECT count(*) FROM payout)`).
			Scan(&calls, &payouts))
		if calls > 0 {
			t.Fatalf("%s: got %d calls, want none", name, calls)
		}
		if payouts > 0 {
			t.Fatalf("%s: got %d payouts, want none", name, payouts)
		}
	}
	l.nodes(t, l.chain.URL, other.url)
	if got, want := lines(l.adopt(t, adopt.Words{})), "payout 0 payout record; $100.00 confirmed follow; "; got != want {
		t.Errorf("both say the truth: got %s, want %s", got, want)
	}
	l.until(t, paid, payout.Confirmed)
	l.sound(t)
}
