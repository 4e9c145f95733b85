package store_test

import (
	"context"
	"encoding/hex"
	"testing"

	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/sweep"
)

// preparer takes every request, and signs every authorization of the first deposit address.
type preparer struct {
	store    store.Sending
	requests []sending.Request
	// fails is what Prepare fails with.
	fails error
}

func (p *preparer) Prepare(ctx context.Context, r sending.Request) (sending.Prepared, error) {
	p.requests = append(p.requests, r)
	if p.fails != nil {
		return sending.Prepared{}, p.fails
	}
	sender := evmtest.Address("sender of "+string(r.Key), 1)
	if _, err := p.store.Next(ctx, r.Chain, sender, r.Key); err != nil {
		return sending.Prepared{}, err
	}
	return sending.Prepared{Request: r, Sender: sender, Gas: 60_000}, nil
}

func (p *preparer) Authorize(_ context.Context, a sweep.Authorization) (sweep.Signature, error) {
	return sweep.Signature{From: evmtest.Address("deposit", uint64(a.Index)), V: 27, R: [32]byte{1}, S: [32]byte{2}}, nil
}

// sweeper makes the sweeper of a world whose treasury is the second argument.
func (w *depositWorld) sweeper(treasury chain.Address) (*sweep.Sweeper, *preparer) {
	p := &preparer{store: store.Sending{Store: w.store.Store}}
	cfg := w.reads.Config()
	cfg.Treasury = treasury.String()
	return &sweep.Sweeper{Store: store.Sweeps{Store: w.store.Store}, Signer: p, Sender: p, Quotes: w.prices,
		Config: chain.Configs{cfg}, Clock: clock.System}, p
}

// pass makes a pass of a sweeper.
func (w *depositWorld) pass(s *sweep.Sweeper) {
	w.t.Helper()
	if err := s.Pass(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// ends ends the one call that there is.
func (w *depositWorld) ends(outcome sending.Outcome, cost uint64) {
	w.t.Helper()
	kept := store.Sending{Store: w.store.Store}
	waiting, err := kept.Waiting(w.t.Context(), w.reads.ID(), 10)
	if err != nil {
		w.t.Fatalf("calls: got the error %v, want none", err)
	}
	if len(waiting) != 1 {
		w.t.Fatalf("calls: got %d, want 1", len(waiting))
	}
	call := waiting[0].Call
	signed := sending.Signed{Hash: chain.Hash{9}, Raw: []byte{1}, Fees: chain.Fees{Max: usd(1), Tip: usd(1)}}
	if err := kept.AddSigned(w.t.Context(), call, signed); err != nil {
		w.t.Fatal(err)
	}
	if err := kept.AddEnd(w.t.Context(), call.Place(), sending.End{Outcome: outcome, Transaction: signed.Hash, Block: 9,
		BlockHash: chain.Hash{8}, Cost: usd(cost)}); err != nil {
		w.t.Fatal(err)
	}
}

// counts compares the backlog.
func (w *depositWorld) counts(want sweep.Backlog) {
	w.t.Helper()
	got, err := store.Sweeps{Store: w.store.Store}.Backlog(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if got != want {
		w.t.Errorf("backlog: got %+v, want %+v", got, want)
	}
}

func TestAnAddressWithAHundredDollarsIsSweptOnceByAnAuthorization(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	treasury := evmtest.Address("treasury", 1)
	at, by := w.newAddress(), w.watcher()
	poor := w.newAddress()
	w.catchUp(by)
	w.arrive(by, evmtest.Transfer(1, w.token, at, usd(99_999_000)), evmtest.Transfer(2, w.token, poor, usd(99_999_999)))
	s, p := w.sweeper(treasury)
	w.pass(s)
	if got := len(p.requests); got != 0 {
		t.Fatalf("below $100: got %d calls, want none", got)
	}
	w.arrive(by, evmtest.Transfer(3, w.token, at, usd(1_000_000)))
	for range 3 {
		w.pass(s)
	}
	if got := len(p.requests); got != 1 {
		t.Fatalf("above $100: got %d calls, want 1", got)
	}
	r := p.requests[0]
	if r.Key != sending.Gas {
		t.Errorf("got a call by %s, want one by gas", r.Key)
	} else if r.To != w.token {
		t.Errorf("got a call to %s, want one to the token", r.To)
	}
	value := usd(100_999_000).Bytes()
	want := "e3ee160e" + hex.EncodeToString(make([]byte, 12)) + hex.EncodeToString(at[:]) +
		hex.EncodeToString(make([]byte, 12)) + hex.EncodeToString(treasury[:]) + hex.EncodeToString(value[:])
	if got := hex.EncodeToString(r.Data); len(got) != 2*(4+9*32) {
		t.Errorf("data: got %d digits, want 9 words behind the selector", len(got))
	} else if got[:len(want)] != want {
		t.Errorf("data: got %s, want one that begins with %s", got, want)
	}
	w.ends(sending.Succeeded, 5)
	w.pass(s)
	if got := w.text(`SELECT state || ' ' || amount FROM sweep`); got != "done 100999000" {
		t.Errorf("got %q, want it done with the whole sum", got)
	}
	// What was swept is not counted on at the address any more.
	gone := evmtest.Move{Token: w.token, Account: at, Amount: usd(100_999_000), Less: true}
	w.chain.Mine(evmtest.Tx{Salt: 9, Moves: []evmtest.Move{gone}},
		evmtest.Transfer(10, w.token, at, usd(2_000_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.credit()
	if got := w.text(`SELECT state FROM transfer WHERE amount = 2000000`); got != "credited" {
		t.Errorf("a deposit after the sweep: got %s, want credited", got)
	}
}

func TestCoinsAreSweptByTheirAddressWhichKeepsTheGasBack(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.SVC, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	hundred, _ := chain.ParseAmount("50000000000000000000")
	w.arrive(by, evmtest.Coins(1, at, hundred))
	s, p := w.sweeper(evmtest.Address("treasury", 1))
	w.pass(s)
	if got := len(p.requests); got != 1 {
		t.Fatalf("got %d calls, want 1", got)
	}
	r := p.requests[0]
	if r.Key != sending.Deposit(0) {
		t.Errorf("got a call by %s, want one by the address itself", r.Key)
	}
	// The maximum price is 1 wei.
	if want := "49999999999999973750"; r.Value.String() != want {
		t.Errorf("value: got %s, want %s", r.Value, want)
	}
	w.ends(sending.Succeeded, 21_000)
	w.pass(s)
	if got := w.text(`SELECT state || ' ' || amount FROM sweep`); got != "done 49999999999999994750" {
		t.Errorf("got %q, want it done with value and cost", got)
	}
}

// The watcher may be behind: then its block has the balance from before the sweep.
func TestWhatIsSweptAboveTheBlockOfALookAtBalancesHasNotGrown(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.SVC, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	fifty, _ := chain.ParseAmount("50000000000000000000")
	w.arrive(by, evmtest.Coins(1, at, fifty))
	s, _ := w.sweeper(evmtest.Address("treasury", 1))
	w.pass(s)
	w.ends(sending.Succeeded, 21_000) // in block 9, and block 1 is the last that was read
	w.pass(s)
	growth := &deposit.Growth{Store: w.deposits, Chains: w.decider.Chains, Config: w.decider.Config,
		Small: func(chain.Asset, chain.Amount) bool { return false }}
	found, err := growth.Pass(t.Context(), chain.SVC)
	if err != nil {
		t.Fatal(err)
	}
	if found != 0 {
		t.Errorf("got %d balances that grew, want none: %s", found, w.transfers())
	}
}

func TestASweepThatMovesNothingHasFailed(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.arrive(by, evmtest.Transfer(1, w.token, at, usd(500_000_000)))
	s, _ := w.sweeper(evmtest.Address("treasury", 1))
	w.pass(s)
	w.counts(sweep.Backlog{Sent: 1})
	w.ends(sending.Reverted, 5)
	w.pass(s)
	w.pass(s)
	if got := w.text(`SELECT string_agg(state, ',') FROM sweep`); got != "failed" {
		t.Errorf("got %q, want it failed, and another one on another day", got)
	}
	w.counts(sweep.Backlog{Stuck: 1})
}
