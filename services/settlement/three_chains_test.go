package settlement

import (
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/store"
)

// secondNode is another address of a chain's RPC, which can be away.
type secondNode struct {
	url  string
	away atomic.Bool
}

func newSecondNode(t *testing.T, of *devchain.Chain) *secondNode {
	t.Helper()
	to, err := url.Parse(of.URL)
	must(t, err)
	n := &secondNode{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

// threeChains are the platform's chains, each with two RPCs, watched by one process.
type threeChains struct {
	chains  map[chain.ID]*devchain.Chain
	seconds map[chain.ID]*secondNode
	pool    *pgxpool.Pool
	work    *chainWork
	address chain.Address
}

func newThreeChains(t *testing.T) *threeChains {
	t.Helper()
	c := &threeChains{chains: map[chain.ID]*devchain.Chain{}, seconds: map[chain.ID]*secondNode{},
		pool: pgtest.Pool(t, Schema, Role, store.Migrations)}
	cfg := DefaultConfig()
	cfg.Development, cfg.DepositXpub = true, config.NewSecret(xpub)
	var list []*devchain.Chain
	for _, id := range []chain.ID{chain.Ethereum, chain.SVC, chain.Base} {
		one := startByHand(t, id)
		_, err := one.Deploy(t.Context(), devchain.Roles{Operator: chain.Address{1}, Slasher: chain.Address{2},
			Arbiter: chain.Address{3}})
		must(t, err)
		must(t, one.Mine(t.Context(), 3))
		c.chains[id], c.seconds[id], list = one, newSecondNode(t, one), append(list, one)
	}
	settings, err := devchain.Settings(list...)
	must(t, err)
	var raw []map[string]any
	must(t, json.Unmarshal([]byte(settings), &raw))
	for i, one := range list {
		raw[i]["rpcs"] = []string{one.URL, c.seconds[chain.ID(one.ID())].url}
	}
	text, err := json.Marshal(raw)
	must(t, err)
	must(t, cfg.Chains.UnmarshalText(text))
	cfg.Quotes.Fixed = map[string]string{"1:eth": "2000", "254:native": "2", "8453:eth": "2000"}
	must(t, cfg.Validate())
	c.work, err = newChainWork(cfg, store.New(c.pool), Deps{Log: slog.New(slog.DiscardHandler),
		Meters: noop.NewMeterProvider(), Clock: clock.System, Posting: posted{}})
	must(t, err)
	a, err := c.work.address(t.Context(), ids.AccountID{0: 1, 6: 0x70, 8: 0x80, 15: 7})
	must(t, err)
	c.address = a.Address
	runUntilTheEnd(t, c.work)
	waitFor(t, func() bool { return c.is(t, `SELECT count(*) = 3 FROM chain_cursor`) })
	return c
}

// is reports what a query says.
func (c *threeChains) is(t *testing.T, query string, args ...any) (so bool) {
	t.Helper()
	must(t, c.pool.QueryRow(t.Context(), query, args...).Scan(&so))
	return so
}

// deposit sends $50 to the one deposit address on a chain, and makes that final.
func (c *threeChains) deposit(t *testing.T, id chain.ID) {
	t.Helper()
	on := c.chains[id]
	if id == chain.SVC {
		must(t, on.Send(t.Context(), devchain.Transaction{From: consumer, To: c.address.String(), Value: coins(25)}))
	} else {
		holder, err := chain.ParseAddress(consumer)
		must(t, err)
		must(t, on.Mint(t.Context(), holder, 50_000_000))
		value := big.NewInt(50_000_000).FillBytes(make([]byte, 32))
		must(t, on.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.USD,
			Data: slices.Concat([]byte{0xa9, 0x05, 0x9c, 0xbb}, make([]byte, 12), c.address[:], value)}))
	}
	must(t, on.Mine(t.Context(), 3))
}

// credited waits until so many deposits of a chain are credited, each whole.
func (c *threeChains) credited(t *testing.T, id chain.ID, n int) {
	t.Helper()
	waitFor(t, func() bool {
		return c.is(t, `SELECT count(*) = $2 FROM transfer WHERE chain_id = $1 AND state = 'credited'
			AND units = CASE chain_id WHEN 254 THEN 25000000000 ELSE 50000000 END`, id, n)
	})
}

// block is how far a chain is read.
func (c *threeChains) block(t *testing.T, id chain.ID) (n uint64) {
	t.Helper()
	must(t, c.pool.QueryRow(t.Context(), `SELECT block FROM chain_cursor WHERE chain_id = $1`, id).Scan(&n))
	return n
}

func TestThreeChainsAreWatchedAtOnceAndOneThatIsSilentHoldsNoOther(t *testing.T) {
	t.Parallel()
	c := newThreeChains(t)
	all := []chain.ID{chain.Ethereum, chain.SVC, chain.Base}
	for _, id := range all {
		c.deposit(t, id)
	}
	for _, id := range all {
		c.credited(t, id, 1)
	}
	// One of two RPCs of a chain is away: nothing of the chain counts until it is back.
	c.seconds[chain.Ethereum].away.Store(true)
	before := c.block(t, chain.Ethereum)
	for _, id := range all {
		c.deposit(t, id)
	}
	c.credited(t, chain.Base, 2)
	c.credited(t, chain.SVC, 2)
	if now := c.block(t, chain.Ethereum); now != before {
		t.Errorf("chain 1 with one RPC of two: got block %d, want %d", now, before)
	}
	if !c.is(t, `SELECT count(*) = 1 FROM transfer WHERE chain_id = 1`) {
		t.Error("transfers of chain 1 with one RPC of two: got another number, want the one of before")
	}
	c.seconds[chain.Ethereum].away.Store(false)
	c.credited(t, chain.Ethereum, 2)
	if !c.is(t, `SELECT count(*) = 6 AND count(DISTINCT deposit_index) = 1 FROM transfer`) {
		t.Error("transfers: got something else, want two on each chain to the same address")
	}
	if !c.is(t, `SELECT count(*) = 0 FROM chain_halt`) {
		t.Error("halts: got some, want none")
	}
}
