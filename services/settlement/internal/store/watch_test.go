package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// chainWorld is a scripted chain with two RPCs, and the database of what is read of it.
type chainWorld struct {
	t     testing.TB
	pool  *pgxpool.Pool
	store store.Watch
	chain *evmtest.Chain
	rpcs  [2]*evmtest.RPC
	reads *evm.Chain
	// token and contract are those of the configuration.
	token, contract chain.Address
}

func newChainWorld(t testing.TB, id chain.ID, depth uint64) *chainWorld {
	t.Helper()
	w := &chainWorld{t: t, chain: evmtest.New(id, depth), token: evmtest.Address("token", 1),
		contract: evmtest.Address("collateral", 1)}
	w.pool = pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	w.store = store.Watch{Store: store.New(w.pool)}
	cfg := chain.Config{ID: id, Name: "scripted", BlockTime: evmtest.BlockTime * time.Second,
		MaxGasPrice: chain.NewAmount(1), CoinSymbol: "COIN",
		Collateral: &chain.Collateral{Address: w.contract.String(), Kind: chain.Coin, Minimum: chain.NewAmount(1)},
		Tokens:     []chain.Token{{Kind: chain.USDC, Address: w.token.String(), Symbol: "USDC", Decimals: 6}}}
	for i := range w.rpcs {
		w.rpcs[i] = evmtest.NewRPC(t, w.chain)
		cfg.RPCs = append(cfg.RPCs, config.NewSecret(w.rpcs[i].URL))
	}
	reads, err := evm.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reads.Close)
	w.reads = reads
	return w
}

// watcher makes a watcher, as a process has one that has just begun.
func (w *chainWorld) watcher() *watch.Watcher {
	return &watch.Watcher{Chain: w.reads, Store: w.store, Config: w.reads.Config(),
		Small: func(a chain.Asset, amount chain.Amount) bool {
			return a.Kind == chain.USDC && amount.Cmp(chain.NewAmount(10_000)) < 0
		}}
}

// address gives an account a deposit address.
func (w *chainWorld) address(n uint64) chain.Address {
	w.t.Helper()
	a := evmtest.Address("deposit", n)
	w.exec(`INSERT INTO deposit_address (deposit_index, account_id, address) VALUES ($1, gen_random_uuid(), $2)`, n, a[:])
	return a
}

func (w *chainWorld) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// text is what a query says.
func (w *chainWorld) text(sql string, args ...any) string {
	w.t.Helper()
	var got string
	if err := w.pool.QueryRow(context.Background(), sql, args...).Scan(&got); err != nil {
		w.t.Fatal(err)
	}
	return got
}

// transfers are all transfers, as "place state amount".
func (w *chainWorld) transfers() string {
	w.t.Helper()
	return w.text(`SELECT coalesce(string_agg(place || ' ' || state || ' ' || amount, ', ' ORDER BY amount), '')
		FROM transfer`)
}

// hasTransfers fails the test unless the transfers are these.
func (w *chainWorld) hasTransfers(when, want string) {
	w.t.Helper()
	if got := w.transfers(); got != want {
		w.t.Errorf("%s: got the transfers %q, want %q", when, got, want)
	}
}

// catchUp makes passes until the watcher is at the final block.
func (w *chainWorld) catchUp(by *watch.Watcher) watch.Report {
	w.t.Helper()
	for {
		r, err := by.Pass(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Caught || r.Halted {
			return r
		}
	}
}

func usd(n uint64) chain.Amount { return chain.NewAmount(n) }

func TestWhatArrivesIsStoredOnceWithItsPlaceInTheReceipt(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	at, by := w.address(0), w.watcher()
	w.chain.MineEmpty(3)
	w.catchUp(by)
	other := evmtest.TransferEvent(w.token, at, evmtest.Address("stranger", 1), usd(5_000_000))
	ours := evmtest.TransferEvent(w.token, evmtest.Address("sender", 1), at, usd(2_000_000))
	// A transaction before it has logs of its own, so the index in the block is not the place in the receipt.
	w.chain.Mine(evmtest.Tx{Salt: 1, Events: []evmtest.Event{other, other}},
		evmtest.Tx{Salt: 2, Events: []evmtest.Event{other, ours, ours}},
		evmtest.Transfer(3, w.token, at, usd(0)), evmtest.Transfer(4, w.token, at, usd(9_999)),
		evmtest.Tx{Salt: 5, Events: []evmtest.Event{other,
			{Contract: w.contract, Topics: []chain.Hash{{1}}, Data: []byte{7}}}},
		evmtest.Transfer(6, evmtest.Address("another token", 1), at, usd(7_000_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	want := "1 final 2000000, 2 final 2000000"
	w.hasTransfers("read", want)
	dust := w.text(`SELECT string_agg(amount || ' ' || transfers, ',') FROM deposit_dust`)
	if dust != "9999 1" {
		t.Errorf("below a cent: got %q, want one row with the sum, and nothing of zero", dust)
	}
	const events = `SELECT string_agg(place || ' ' || log_index || ' ' || encode(data, 'hex'), ',') FROM chain_event`
	if got := w.text(events); got != "1 8 07" {
		t.Errorf("events: got %q, want the one of the contract with place and index", got)
	}
	// Another process begins where the first ended, and reads nothing twice.
	w.chain.MineEmpty(2)
	w.catchUp(w.watcher())
	w.hasTransfers("another process", want)
}

func TestCoinsCountWhereTheChainIsPaidInCoins(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.SVC, 2)
	at, by := w.address(0), w.watcher()
	w.catchUp(by)
	failed := evmtest.Coins(2, at, usd(6_000_000_000))
	failed.Failed = true
	w.chain.Mine(evmtest.Coins(1, at, usd(5_000_000_007)), failed, evmtest.Coins(3, at, usd(0)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.hasTransfers("coins", "0 final 5000000007")
	if got := w.text(`SELECT units || ' ' || dust FROM transfer`); got != "5 7" {
		t.Errorf("units and dust: got %q, want 5 and 7", got)
	}
}

func TestOfTwoWatchersTheOneWithTheOlderFenceWritesNothing(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	at, first, second := w.address(0), w.watcher(), w.watcher()
	w.chain.MineEmpty(3)
	w.catchUp(first)
	w.catchUp(second)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)))
	w.chain.MineEmpty(2)
	if _, err := first.Pass(t.Context()); !errors.Is(err, watch.ErrFenced) {
		t.Errorf("the older one: got the error %v, want %v", err, watch.ErrFenced)
	}
	w.hasTransfers("the older one", "")
	w.catchUp(second)
	w.hasTransfers("the newer one", "0 final 2000000")
	held, release, ok, err := w.store.Lock(t.Context(), chain.Base)
	if err != nil {
		t.Fatalf("the first lock: got the error %v, want none", err)
	}
	if !ok {
		t.Fatalf("the first lock: got %t, want it", ok)
	}
	if _, _, again, err := w.store.Lock(t.Context(), chain.Base); again {
		t.Errorf("the second lock: got %t, want false", again)
	} else if err != nil {
		t.Errorf("the second lock: got the error %v, want none", err)
	}
	if err := held(t.Context()); err != nil {
		t.Errorf("the lock: got the error %v, want none", err)
	}
	release()
	for {
		_, release, ok, err := w.store.Lock(t.Context(), chain.Base)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			release()
			break
		}
	}
}

func TestATransferAboveTheFinalBlockIsSeenAndMayBeDropped(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 5)
	at, by := w.address(0), w.watcher()
	w.chain.MineEmpty(10)
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)), evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	if err := by.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hasTransfers("seen", "0 seen 2000000, 0 seen 3000000")
	w.chain.Reorg(1)
	w.chain.MineEmpty(1)
	w.chain.Mine(evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	w.chain.MineEmpty(5)
	w.catchUp(by)
	w.hasTransfers("final", "0 dropped 2000000, 0 final 3000000")
	// The sender sends it again: the same transaction is mined later.
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)))
	w.chain.MineEmpty(5)
	w.catchUp(by)
	w.hasTransfers("mined again", "0 final 2000000, 0 final 3000000")
}

// An exchange pays out what its pool has when it is mined. The transaction keeps its hash.
func TestATransferThatIsMinedAgainWithAnotherAmountCountsAsItIsThen(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 5)
	at, other, by := w.address(0), w.address(1), w.watcher()
	w.chain.MineEmpty(10)
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)), evmtest.Transfer(2, w.token, at, usd(5_000_000)))
	if err := by.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hasTransfers("seen", "0 seen 2000000, 0 seen 5000000")
	w.chain.Reorg(1)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(1_900_000)), evmtest.Transfer(2, w.token, other, usd(4_000_000)))
	w.chain.MineEmpty(5)
	w.catchUp(by)
	w.hasTransfers("final", "0 final 1900000, 0 final 4000000")
	if got := w.text(`SELECT string_agg(deposit_index || ' ' || units, ', ' ORDER BY units) FROM transfer`); got !=
		"0 1900000, 1 4000000" {
		t.Errorf("addresses and units: got %q, want those of the final block", got)
	}
}

// People see at once what a change above the final block did: nobody waits for the block to be final.
func TestALookSeesWhatAReorgAboveTheFinalBlockTookAwayAndMoved(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 9)
	at, by := w.address(0), w.watcher()
	look := func() {
		t.Helper()
		w.catchUp(by)
		if err := by.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(when, want string) {
		t.Helper()
		const standing = `SELECT string_agg(amount || ' seen ' || c.head - t.block, ', ' ORDER BY amount)
			FROM transfer t JOIN chain_cursor c USING (chain_id) WHERE t.state = 'seen'`
		if got := w.text(standing); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	w.chain.MineEmpty(12)
	look()
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)), evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	look()
	seen("in the head", "2000000 seen 0, 3000000 seen 0")
	w.chain.MineEmpty(2)
	look()
	seen("two blocks later", "2000000 seen 2, 3000000 seen 2")
	// One of them is mined again in a later block of the new history, and the other is gone.
	w.chain.Reorg(3)
	w.chain.MineEmpty(2)
	w.chain.Mine(evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	w.chain.MineEmpty(1)
	look()
	seen("after the change", "3000000 seen 1")
	w.hasTransfers("after the change", "0 dropped 2000000, 0 seen 3000000")
	// A shorter history has nothing above its head.
	w.chain.Reorg(2)
	if err := by.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hasTransfers("after a shorter history", "0 dropped 2000000, 0 dropped 3000000")
}

func TestAChangedFinalBlockHaltsTheChainUntilAnOperatorNamesTheBlock(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	at, by := w.address(0), w.watcher()
	w.chain.MineEmpty(3)
	w.catchUp(by)
	common := w.chain.HashOf(1)
	event := evmtest.Event{Contract: w.contract, Topics: []chain.Hash{{1}}}
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)), evmtest.Transfer(2, w.token, at, usd(3_000_000)),
		evmtest.Tx{Salt: 3, Events: []evmtest.Event{event}})
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.chain.Reorg(4)
	w.chain.MineEmpty(1)
	w.chain.Mine(evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	w.chain.MineEmpty(4)
	for range 3 {
		if r, err := by.Pass(t.Context()); err != nil {
			t.Fatalf("changed: got the error %v, want none", err)
		} else if !r.Halted {
			t.Fatalf("changed: got halted %t, want a halt", r.Halted)
		}
	}
	if halted, err := w.store.Halted(t.Context(), chain.Base); err != nil {
		t.Errorf("others: got the error %v, want none", err)
	} else if !halted {
		t.Errorf("others: got halted %t, want true", halted)
	}
	lifter := &watch.Lifter{Store: w.store, Chains: map[chain.ID]watch.Reader{chain.Base: w.reads}}
	halt, _, err := w.store.OpenHalt(t.Context(), chain.Base)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lifter.Lift(t.Context(), chain.Base, halt.Was, "operator:ann", "no")
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("the old hash: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	lift, err := lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "the chain has said so")
	if err != nil {
		t.Fatal(err)
	}
	if lift.Back.Number != 1 {
		t.Errorf("back: got block %d, want 1", lift.Back.Number)
	} else if lift.Back.Hash != common {
		t.Errorf("back: got the block %s, want %s", lift.Back.Hash, common)
	}
	w.catchUp(by)
	w.hasTransfers("lifted", "0 dropped 2000000, 0 final 3000000")
	if got := w.text(`SELECT count(*)::text FROM chain_event WHERE gone_at IS NOT NULL`); got != "1" {
		t.Errorf("events that are gone: got %s, want 1", got)
	}
	if got := w.text(`SELECT state || block FROM transfer WHERE amount = 3000000`); got != "final4" {
		t.Errorf("where the other is now: got %s, want final in block 4", got)
	}
	_, err = lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "again")
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("again: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	wantActs(t, w.pool, "operator:ann lift_chain_halt 8453")
}

func TestWhatAllRPCsForgotIsFoundADayLater(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	at, by := w.address(0), w.watcher()
	w.chain.MineEmpty(3)
	w.catchUp(by)
	for _, r := range w.rpcs {
		r.Lie(func(method string, result any) any {
			if method == "eth_getLogs" {
				return []any{}
			}
			return result
		})
	}
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)), evmtest.Transfer(2, w.token, at, usd(9)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.hasTransfers("forgotten", "")
	for _, r := range w.rpcs {
		r.Lie(nil)
	}
	w.chain.MineEmpty(24*3600/evmtest.BlockTime + 10)
	w.catchUp(by)
	r, err := by.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Missed != 1 {
		t.Errorf("missed: got %d, want 1", r.Missed)
	}
	w.hasTransfers("a day later", "0 final 2000000")
}

func TestWithoutAgreementThereIsNoProgress(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	at, by := w.address(0), w.watcher()
	w.chain.MineEmpty(3)
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)))
	w.chain.MineEmpty(2)
	forge := func(method string, result any) any {
		if method == "eth_getLogs" {
			value := usd(9_000_000).Bytes()
			for _, l := range result.([]any) {
				l.(map[string]any)["data"] = fmt.Sprintf("0x%x", value)
			}
		}
		return result
	}
	for name, spoil := range map[string]func(){
		"another amount": func() { w.rpcs[1].Lie(forge) },
		"no logs": func() {
			w.rpcs[1].Lie(func(method string, result any) any {
				if method == "eth_getLogs" {
					return []any{}
				}
				return result
			})
		},
		"silence": func() { w.rpcs[1].Down(true) },
		"behind":  func() { w.rpcs[1].Behind(4) },
		"the same lie of all": func() {
			w.rpcs[0].Lie(forge)
			w.rpcs[1].Lie(func(method string, result any) any {
				if method == "eth_getTransactionReceipt" {
					result.(map[string]any)["logs"] = []any{}
				}
				return forge(method, result)
			})
		},
	} {
		spoil()
		if r, err := by.Pass(t.Context()); err == nil && r.Block > 2 {
			t.Errorf("%s: got block %d, want no progress", name, r.Block)
		}
		w.hasTransfers(name, "")
		for _, r := range w.rpcs {
			r.Lie(nil)
			r.Down(false)
			r.Behind(0)
		}
	}
	w.catchUp(by)
	w.hasTransfers("honest again", "0 final 2000000")
}
