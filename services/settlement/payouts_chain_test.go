package settlement

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/signer"
	"svc.internal/services/settlement/signer/development"
)

// desk is the books, the hub, the screening and the prices of a test.
type desk struct {
	address  chain.Address
	inFlight money.NanoUSD
	// said are the posts, in order.
	said []string
	gas  []sending.Spent
	rate money.NanoUSD
}

func (d *desk) Balances(context.Context, ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	return 1_000 * money.USD, d.inFlight, nil
}

func (d *desk) post(what string) (ids.EntryID, error) {
	d.said = append(d.said, what)
	return ids.EntryID{0: 1, 15: byte(len(d.said))}, nil
}

func (d *desk) Reserve(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	d.inFlight = p.Gross
	return d.post("reserve")
}

func (d *desk) Confirm(context.Context, payout.Payout) (ids.EntryID, error) { return d.post("confirm") }
func (d *desk) GiveBack(context.Context, payout.Payout) (ids.EntryID, error) {
	return d.post("give back")
}

func (d *desk) Convert(context.Context, payout.Conversion) (ids.EntryID, error) {
	return d.post("convert")
}

func (d *desk) Gas(_ context.Context, s sending.Spent) (ids.EntryID, error) {
	d.gas = append(d.gas, s)
	return ids.EntryID{0: 2}, nil
}

func (d *desk) Payee(context.Context, ids.ProviderID) (payout.Payee, error) {
	return payout.Payee{Address: d.address}, nil
}

func (d *desk) Screen(context.Context, chain.Address) (bool, string, error) { return false, "v1", nil }

func (d *desk) Quote(context.Context, chain.ID) (chain.Quote, error) {
	return chain.Quote{Rate: d.rate, Source: "test", At: time.Now().UTC().Truncate(time.Microsecond)}, nil
}

// paying is a chain with a hot wallet, the real chain-signer, and payouts on a real database.
type paying struct {
	*desk
	chain    *devchain.Chain
	keys     map[string]chain.Address
	reader   *evm.Chain
	keeper   *payout.Keeper
	pipeline *sending.Pipeline
	hot      chain.Address
	signer   signerv1.SignerServiceClient
	cfg      chain.Config
	store    *store.Store
	pool     *pgxpool.Pool
}

func newPaying(t *testing.T, id chain.ID) *paying {
	t.Helper()
	return newPayingOn(t, startChain(t, id))
}

// newPayingOn is newPaying on a chain of the test's own.
func newPayingOn(t *testing.T, on *devchain.Chain) *paying {
	t.Helper()
	id := chain.ID(on.ID())
	p := &paying{desk: &desk{address: chain.Address{0: 0x77, 19: byte(id)}, rate: money.USD / 2}, chain: on}
	seed := filepath.Join(t.TempDir(), "seed")
	addresses, err := development.Addresses(seed)
	must(t, err)
	p.keys, p.hot = addresses, addresses["payout"]
	_, err = p.chain.Deploy(t.Context(), devchain.Roles{Operator: addresses["operator"], Slasher: addresses["slasher"],
		Arbiter: addresses["arbiter"]})
	must(t, err)
	must(t, p.chain.Fund(t.Context(), p.hot, new(big.Int).Exp(big.NewInt(10), big.NewInt(21), nil)))
	if id != chain.SVC {
		must(t, p.chain.Mint(t.Context(), p.hot, 1_000_000_000))
	}
	must(t, p.chain.Mine(t.Context(), 8))
	settings, err := devchain.Settings(p.chain)
	must(t, err)
	var chains chain.Configs
	must(t, chains.UnmarshalText([]byte(settings)))
	p.reader, err = evm.Dial(chains[0])
	must(t, err)
	t.Cleanup(p.reader.Close)
	p.start(t, chains[0], newSigner(t, p.chain, seed))
	return p
}

func (p *paying) start(t *testing.T, cfg chain.Config, client signerv1.SignerServiceClient) {
	t.Helper()
	p.startOn(t, pgtest.Pool(t, Schema, Role, store.Migrations), cfg, client)
}

// startOn is start on a database of the caller's.
func (p *paying) startOn(t *testing.T, pool *pgxpool.Pool, cfg chain.Config, client signerv1.SignerServiceClient) {
	t.Helper()
	p.pool = pool
	st := store.New(p.pool)
	p.store, p.signer, p.cfg = st, client, cfg
	asset, _ := cfg.Asset(cfg.ID.PaysOut())
	assets := map[chain.ID]chain.Asset{cfg.ID: asset}
	p.pipeline = sending.New(store.Sending{Store: st}, peers.ChainSigner{Client: client},
		sending.Chain{ID: cfg.ID, Node: p.reader, MaxGasPrice: cfg.MaxGasPrice})
	p.keeper = payout.NewKeeper(payout.Config{Assets: assets, Alone: payout.Alone, AloneDaily: 5 * payout.Alone},
		payout.Deps{Store: store.Payouts{Store: st}, Ledger: p.desk, Payees: p.desk, Screener: p.desk, Quotes: p.desk,
			Wallet: hotWallet{chains: map[chain.ID]*evm.Chain{cfg.ID: p.reader}, assets: assets}, Sender: p.pipeline,
			Clock: clock.System, Random: rand.Reader,
			Kept: func(_ context.Context, _ payout.Payout, err error) { t.Log(err) }})
	must(t, store.SettlementChains{Store: st}.SetSettlementChain(t.Context(), ids.ProviderID(payee), cfg.ID, "provider"))
}

// payee is the provider of these tests.
var payee = ids.ProviderID{0: 1, 6: 0x70, 8: 0x80, 15: 9}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startChain(t *testing.T, id chain.ID) *devchain.Chain {
	t.Helper()
	return startChainOf(t, devchain.Config{ID: uint64(id)})
}

// startByHand starts a chain that makes a block for each transaction, and none by itself.
func startByHand(t *testing.T, id chain.ID) *devchain.Chain {
	t.Helper()
	return startChainOf(t, devchain.Config{ID: uint64(id), ByHand: true})
}

func startChainOf(t *testing.T, cfg devchain.Config) *devchain.Chain {
	t.Helper()
	path, err := anvil.Install(t.Context(), "../..")
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	must(t, err)
	cfg.Binary = path
	c, err := devchain.Start(context.WithoutCancel(t.Context()), cfg)
	must(t, err)
	t.Cleanup(c.Stop)
	return c
}

// newSigner is the real chain-signer, in process.
func newSigner(t *testing.T, c *devchain.Chain, seed string) signerv1.SignerServiceClient {
	t.Helper()
	settings, err := devchain.SignerSettings(c)
	must(t, err)
	cfg := signer.DefaultConfig()
	cfg.Development, cfg.DevelopmentSeed = true, seed
	must(t, cfg.Chains.UnmarshalText([]byte(settings)))
	tables := signer.Tables()
	log := slog.New(slog.DiscardHandler)
	service, err := signer.New(t.Context(), cfg, signer.Deps{Log: log, Meters: noop.NewMeterProvider(),
		DB: pgtest.Pool(t, tables.Schema, tables.Role, tables.Migrations)})
	must(t, err)
	in, err := serve.NewInterceptors(log, noop.NewMeterProvider(), tracenoop.NewTracerProvider(), tables.Fault)
	must(t, err)
	channel := serve.NewInProcess(in)
	service.Register(grpc.ServiceRegistrar(channel))
	return signerv1.NewSignerServiceClient(channel.Client())
}

// ask asks for a payout of $100.
func (p *paying) ask(t *testing.T) payout.Payout {
	t.Helper()
	op := payout.Operation{ProviderID: payee, Key: "k", Actor: "user:0192f0c0-0000-7000-8000-000000000001"}
	asked, err := p.keeper.Request(t.Context(), op, 100*money.USD, 0)
	must(t, err)
	return asked
}

// until looks again and again, as the service does, until a payout is in a state.
func (p *paying) until(t *testing.T, id payout.ID, want payout.State) payout.Payout {
	t.Helper()
	for {
		now, err := p.keeper.Advance(t.Context(), id)
		must(t, err)
		if now.State == want {
			return now
		}
		if now.State.Final() {
			t.Fatalf("got %s (%s), want %s", now.State, now.Reason, want)
		}
		if _, err := p.pipeline.Pass(t.Context(), now.Chain); err != nil {
			t.Log(err)
		}
		must(t, p.chain.Mine(t.Context(), 1))
	}
}

func TestAPayoutIsReceivedOnARealChain(t *testing.T) {
	t.Parallel()
	for id, want := range map[chain.ID]string{
		chain.Base: "99000000",              // $99 in millionths
		chain.SVC:  "198000000000000000000", // at 50 cents
	} {
		t.Run(id.String(), func(t *testing.T) {
			t.Parallel()
			p := newPaying(t, id)
			done := p.until(t, p.ask(t).ID, payout.Confirmed)
			block, err := p.reader.Final(t.Context())
			must(t, err)
			var got chain.Amount
			if id == chain.SVC {
				got, err = p.reader.Balance(t.Context(), p.address, block)
			} else {
				usd, _ := chain.ParseAddress(devchain.USD)
				got, err = p.reader.TokenBalance(t.Context(), usd, p.address, block)
			}
			must(t, err)
			if got.String() != want {
				t.Errorf("received: got %s, want %s", got, want)
			} else if done.Amount != got {
				t.Errorf("sent: got %s, want %s", done.Amount, got)
			}
			must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
			if len(p.gas) != 1 {
				t.Errorf("gas: got %+v, want one post", p.gas)
			} else if p.gas[0].Transaction != done.Transaction {
				t.Errorf("gas: got that of %s, want that of %s", p.gas[0].Transaction, done.Transaction)
			}
			if got := p.said; len(got) != 2 {
				t.Errorf("posts: got %q, want two", got)
			} else if got[0] != "reserve" {
				t.Errorf("first post: got %q, want a reserve", got[0])
			} else if got[1] != "confirm" {
				t.Errorf("second post: got %q, want a confirm", got[1])
			}
		})
	}
}

func TestARecipientThatTheTokenBlocksIsNotSentTo(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	selector, err := hex.DecodeString("f9f92be4") // blacklist(address)
	must(t, err)
	const owner = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	must(t, p.chain.Send(t.Context(), devchain.Transaction{From: owner, To: devchain.USD,
		Data: append(append(selector, make([]byte, 12)...), p.address[:]...)}))
	failed := p.until(t, p.ask(t).ID, payout.Failed)
	if failed.EndsAs != payout.Failed {
		t.Errorf("got %+v, want it to end as failed", failed)
	} else if failed.Reason == "" {
		t.Errorf("got %+v, want a reason", failed)
	} else if !failed.Transaction.IsZero() {
		t.Errorf("got %+v, want no transaction", failed)
	}
	if got := p.said; len(got) != 2 {
		t.Errorf("posts: got %q, want two", got)
	} else if got[1] != "give back" {
		t.Errorf("second post: got %q, want that it is given back", got[1])
	}
}

func TestACancelTakesTheNonceOfAPayout(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	asked := p.ask(t)
	if asked.State != payout.Signing {
		t.Fatalf("asked: got %s (%s), want signing", asked.State, asked.Waiting)
	}
	operator := actor.WithOperator(t.Context(), "ann")
	_, err := p.keeper.CancelOnChain(operator, asked.ID, "it hangs")
	must(t, err)
	failed := p.until(t, asked.ID, payout.Failed)
	if failed.Reason != "the transaction was cancelled" {
		t.Errorf("got the reason %q, want that it was cancelled", failed.Reason)
	}
}
