package settlement

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	billingv1 "svc.internal/proto/svc/billing/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/slash"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/sweep"
	"svc.internal/services/settlement/internal/watch"
)

// facts is the books' side of Post: each fact is posted once, by all that it states. A price is no part of it, as in
// billing-ledger.
type facts struct {
	billingv1.PostingServiceClient
	posted map[string]int
}

func (f *facts) Post(
	_ context.Context, req *billingv1.PostRequest, _ ...grpc.CallOption,
) (*billingv1.PostResponse, error) {
	if slashed := req.GetChainSlashed(); slashed != nil {
		slashed.Sum.Quote = nil
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, err
	}
	f.posted[fmt.Sprintf("%T %s", req.GetFact(), req)]++
	hash := sha256.Sum256(raw)
	id := ids.EntryID(hash[:16])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return &billingv1.PostResponse{EntryId: id.String()}, nil
}

// noCards has no payments by card.
type noCards struct{ refund.Cards }

func (noCards) Payments(context.Context, ids.ProviderID) ([]refund.Payment, error) { return nil, nil }

// whole is all of settlement that sends, on one chain and on a database that may be set back.
type whole struct {
	*losing
	facts    *facts
	watcher  *watch.Watcher
	decider  *deposit.Decider
	poster   *deposit.Poster
	sweeper  *sweep.Sweeper
	follower *position.Follower
	slashes  *slash.Runner
	payer    *refund.Runner
	keeping  *penalty.Keeper
	refunds  store.Refunds
	// deposits is a consumer's deposit address.
	deposits chain.Address
	// sweeps reports that deposits are swept.
	sweeps bool
}

func newWhole(t *testing.T, id chain.ID) *whole {
	t.Helper()
	w := &whole{losing: newLosingOn(t, startByHand(t, id)), facts: &facts{posted: map[string]int{}}}
	for _, key := range []string{"gas", "operator", "slasher", "arbiter"} {
		must(t, w.chain.Fund(t.Context(), w.keys[key], coins(1)))
	}
	w.open(t, pgtest.Database(t, Schema, Role, store.Migrations))
	return w
}

// open goes on with the database at a URL.
func (w *whole) open(t *testing.T, url string) {
	t.Helper()
	w.startOn(t, pgtest.Open(t, url, Schema, Role), w.cfg, w.signer)
	w.begin(t)
	cfg := DefaultConfig()
	cfg.Chains = chain.Configs{w.cfg}
	terms, err := cfg.terms()
	must(t, err)
	watching, kept := store.Watch{Store: w.store}, store.Deposits{Store: w.store}
	w.watcher = &watch.Watcher{Chain: w.reader, Store: watching, Config: w.cfg,
		Small: func(chain.Asset, chain.Amount) bool { return false }}
	w.decider = &deposit.Decider{Store: kept, Screener: passes{}, Config: cfg.Chains, Halted: watching.Halted,
		Quotes: w.desk, Chains: map[chain.ID]deposit.Balances{w.cfg.ID: w.reader}}
	w.poster = &deposit.Poster{Store: kept, Ledger: peers.DepositBooks{Client: w.facts}}
	w.sweeper = &sweep.Sweeper{Store: store.Sweeps{Store: w.store}, Signer: peers.ChainSigner{Client: w.signer},
		Sender: w.pipeline, Quotes: w.desk, Config: cfg.Chains, Clock: clock.System}
	w.stand(terms)
	public, err := w.signer.GetDepositXpub(t.Context(), &signerv1.GetDepositXpubRequest{})
	must(t, err)
	deriver, err := deposit.NewDeriver(public.GetXpub())
	must(t, err)
	a, err := kept.Address(t.Context(), ids.AccountID{0: 1, 6: 0x70, 8: 0x80, 15: 7}, deriver.At)
	must(t, err)
	w.deposits = a.Address
}

// stand makes the parts of what stands behind providers.
func (w *whole) stand(terms position.Terms) {
	positions := store.Positions{Store: w.store, Terms: terms}
	books := peers.CollateralBooks{Posting: w.facts, Terms: terms}
	calls := store.ContractCalls{Positions: positions, Pipeline: w.pipeline}
	w.follower = &position.Follower{Terms: terms, Store: positions, Ledger: books,
		Events: store.ChainEvents{Positions: positions, BlockAt: func(
			ctx context.Context, _ chain.ID, number uint64,
		) (chain.Block, error) {
			return w.reader.BlockAt(ctx, number)
		}}}
	w.keeping = penalty.NewKeeper(store.Penalties{Store: w.store, Terms: terms},
		func(context.Context, penalty.Penalty) {})
	w.slashes = &slash.Runner{Store: store.Parts{Positions: positions}, Calls: calls, Ledger: books,
		Quotes: coinQuotes{terms, w.desk}, Appeals: chainAppeals{w.keeping}}
	w.refunds = store.Refunds{Positions: positions}
	w.payer = &refund.Runner{Store: w.refunds, Calls: calls, Ledger: books, Cards: noCards{}}
}

// keep copies the database as it is, and returns the URL of the copy.
func (w *whole) keep(t *testing.T) string {
	t.Helper()
	url := w.pool.Config().ConnString()
	w.pool.Close()
	copied := pgtest.Copy(t, url)
	w.open(t, url)
	return copied
}

// change changes rows behind the back of all triggers, with a connection that it closes.
func (w *whole) change(t *testing.T, sql string) {
	t.Helper()
	owner := pgtest.Open(t, w.pool.Config().ConnString(), Schema, "")
	defer owner.Close()
	must(t, pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; `+sql)
		return err
	}))
}

// work has every part of the service look once, in an order in which the chain's events are heard of last.
func (w *whole) work(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	w.change(t, `UPDATE penalty_part SET due_at = clock_timestamp() - interval '1 second';
		UPDATE collateral_refund_part SET due_at = clock_timestamp() - interval '1 second';
		UPDATE collateral_refund SET look_at = clock_timestamp() - interval '1 second'`)
	_, _, err := w.keeping.ExecuteDue(ctx)
	must(t, err)
	_, err = w.slashes.Pass(ctx)
	w.halted(t, err)
	_, err = w.payer.Pass(ctx)
	w.halted(t, err)
	if w.sweeps {
		w.halted(t, w.sweeper.Pass(ctx))
	}
	w.halted(t, w.keeper.AdvanceOpen(ctx, maxPayouts))
	_, err = w.pipeline.Pass(ctx, w.cfg.ID)
	w.halted(t, err)
	must(t, w.chain.Mine(ctx, map[bool]int{true: 70, false: 3}[w.cfg.ID == chain.SVC]))
	for range maxPasses {
		r, err := w.watcher.Pass(ctx)
		must(t, err)
		if r.Caught {
			break
		}
	}
	_, err = w.decider.Pass(ctx)
	must(t, err)
	_, err = w.poster.Pass(ctx)
	must(t, err)
	_, err = w.follower.Follow(ctx, w.cfg.ID)
	must(t, err)
	must(t, w.follower.Post(ctx, w.cfg.ID))
}

// halted fails the test for an error that is no halt.
func (*whole) halted(t *testing.T, err error) {
	t.Helper()
	for one := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		if err != nil && !strings.HasSuffix(one, sending.ErrHalted.Error()) {
			t.Fatalf("got the error %v, want a halt at most", one)
		}
	}
}

// maxLooks bounds the looks of a test.
const maxLooks = 12

// workUntil works until a query is true.
func (w *whole) workUntil(t *testing.T, what, query string) {
	t.Helper()
	for range maxLooks {
		if w.is(t, query) {
			return
		}
		w.work(t)
	}
	t.Fatalf("%s: it is not so after %d looks", what, maxLooks)
}

func (w *whole) is(t *testing.T, query string) (so bool) {
	t.Helper()
	must(t, w.pool.QueryRow(t.Context(), `SELECT `+query).Scan(&so))
	return so
}

// deposit has a consumer deposit 150 dollars, or 300 coins, and put 40 of a token behind each of two providers.
func (w *whole) deposit(t *testing.T) {
	t.Helper()
	at, err := chain.ParseAddress(devchain.Collateral)
	must(t, err)
	amount, ok := chain.AmountOfUnits(40*coinUnits, chain.CoinDecimals)
	value := coins(40)
	if w.cfg.ID != chain.SVC {
		amount, value = chain.NewAmount(40_000_000), nil
		holder, err := chain.ParseAddress(consumer)
		must(t, err)
		must(t, w.chain.Mint(t.Context(), holder, 1_000_000_000))
		must(t, w.chain.Mint(t.Context(), w.hot, 10_000_000_000))
		must(t, w.chain.Mint(t.Context(), w.deposits, 150_000_000)) // as a bridge makes them
		must(t, w.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.USD,
			Data: contract.Approve(at, chain.NewAmount(80_000_000))}))
	} else {
		must(t, w.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: w.deposits.String(), Value: coins(300)}))
	}
	if !ok {
		t.Fatal("40 coins: got no amount, want one")
	}
	for _, n := range []byte{penalized, leaving} {
		must(t, w.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.Collateral, Value: value,
			Data: contract.Deposit(contract.Subject(provider(n)), amount)}))
	}
}

// coinUnits is how many units of the books a coin has.
const coinUnits = 1_000_000_000

// counts are the transactions of each key.
func (w *whole) counts(t *testing.T) string {
	t.Helper()
	text := ""
	for _, key := range []string{"payout", "operator", "slasher", "arbiter", "gas"} {
		final, latest, err := w.reader.Nonce(t.Context(), w.keys[key])
		must(t, err)
		text += fmt.Sprintf("%s %d/%d ", key, final, latest)
	}
	return text
}

// has is what addresses have of what is paid out on the chain.
func (w *whole) has(t *testing.T) string {
	t.Helper()
	block, err := w.reader.Final(t.Context())
	must(t, err)
	asset, _ := w.cfg.Asset(w.cfg.ID.PaysOut())
	text := ""
	of := []string{devchain.Treasury, consumer, w.deposits.String()}
	for n := paidOne; n <= cancelledOne; n++ {
		of = append(of, chain.Address{0: 0x77, 19: n}.String())
	}
	for _, one := range of {
		at, err := chain.ParseAddress(one)
		must(t, err)
		var got chain.Amount
		if asset.Kind == chain.Coin {
			got, err = w.reader.Balance(t.Context(), at, block)
		} else {
			got, err = w.reader.TokenBalance(t.Context(), asset.Contract, at, block)
		}
		must(t, err)
		text += fmt.Sprintf("%s %s ", one, got)
	}
	return text
}

// costs counts the transactions whose cost the books were told.
func (w *whole) costs() int {
	all := map[chain.Hash]bool{}
	for _, s := range w.gas {
		all[s.Transaction] = true
	}
	return len(all)
}
