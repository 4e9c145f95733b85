package settlement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// sharedDesk is a desk that several processes use at once, whose posts are idempotent.
type sharedDesk struct {
	*desk
	mu      sync.Mutex
	entries map[string]ids.EntryID
}

func (d *sharedDesk) once(what string, p payout.Payout, post func() (ids.EntryID, error)) (ids.EntryID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := what + p.ID.String()
	if entry, ok := d.entries[key]; ok {
		return entry, nil
	}
	entry, err := post()
	d.entries[key] = entry
	return entry, err
}

func (d *sharedDesk) Balances(ctx context.Context, id ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.desk.Balances(ctx, id)
}

func (d *sharedDesk) Reserve(ctx context.Context, p payout.Payout) (ids.EntryID, error) {
	return d.once("reserve", p, func() (ids.EntryID, error) { return d.desk.Reserve(ctx, p) })
}

func (d *sharedDesk) Confirm(ctx context.Context, p payout.Payout) (ids.EntryID, error) {
	return d.once("confirm", p, func() (ids.EntryID, error) { return d.desk.Confirm(ctx, p) })
}

func (d *sharedDesk) GiveBack(ctx context.Context, p payout.Payout) (ids.EntryID, error) {
	return d.once("give back", p, func() (ids.EntryID, error) { return d.desk.GiveBack(ctx, p) })
}

// replica is another process that pays from the same database and chain, with the same signer.
type replica struct {
	keeper   *payout.Keeper
	pipeline *sending.Pipeline
}

// replicas are two processes that pay from the same database, chain, signer and books.
func (p *paying) replicas(t *testing.T) [2]replica {
	t.Helper()
	shared := &sharedDesk{desk: p.desk, entries: map[string]ids.EntryID{}}
	asset, _ := p.cfg.Asset(p.cfg.ID.PaysOut())
	assets := map[chain.ID]chain.Asset{p.cfg.ID: asset}
	var out [2]replica
	for i := range out {
		out[i].pipeline = sending.New(store.Sending{Store: p.store}, peers.ChainSigner{Client: p.signer},
			sending.Chain{ID: p.cfg.ID, Node: p.reader, MaxGasPrice: p.cfg.MaxGasPrice})
		out[i].keeper = payout.NewKeeper(payout.Config{Assets: assets, Alone: payout.Alone, AloneDaily: 5 * payout.Alone},
			payout.Deps{Store: store.Payouts{Store: p.store}, Ledger: shared, Payees: shared, Screener: shared,
				Quotes: shared, Wallet: hotWallet{chains: map[chain.ID]*evm.Chain{p.cfg.ID: p.reader}, assets: assets},
				Sender: out[i].pipeline, Clock: clock.System, Random: rand.Reader})
	}
	return out
}

// TestHostile48_TwoReplicasMakeOneTransferOfAHundredRequests has a hundred requests come to two replicas at once, both
// of which move on what they find.
func TestHostile48_TwoReplicasMakeOneTransferOfAHundredRequests(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	replicas := p.replicas(t)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			op := payout.Operation{ProviderID: payee, Key: fmt.Sprint("k", i%50), Actor: "user:" + somebody}
			_, err := replicas[i%2].keeper.Request(t.Context(), op, 100*money.USD, 0)
			if err != nil && !fault.Is(err, fault.PayoutPending) && !fault.Is(err, fault.PayoutTooFrequent) {
				t.Errorf("request %d: got the error %v, want a refusal at most", i, err)
			}
		})
	}
	wg.Wait()
	p.together(t, replicas)
	for what, of := range map[string]string{"payouts": "payout", "calls": "chain_call",
		"transactions": "(SELECT DISTINCT chain_id, sender, nonce FROM signed_tx) AS x"} {
		var n int
		must(t, p.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+of).Scan(&n))
		if n != 1 {
			t.Errorf("%s: got %d, want 1", what, n)
		}
	}
	block, err := p.reader.Final(t.Context())
	must(t, err)
	usd, _ := chain.ParseAddress(devchain.USD)
	got, err := p.reader.TokenBalance(t.Context(), usd, p.address, block)
	must(t, err)
	if got.String() != "99000000" {
		t.Errorf("received: got %s, want 99000000", got)
	}
	final, _, err := p.reader.Nonce(t.Context(), p.hot)
	must(t, err)
	if final != 1 {
		t.Errorf("transactions of the hot wallet: got %d, want 1", final)
	}
}

// somebody is the user who owns the payee.
const somebody = "0192f0c0-0000-7000-8000-000000000001"

// together has both replicas look at once, again and again, until nothing is open.
func (p *paying) together(t *testing.T, replicas [2]replica) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		var wg sync.WaitGroup
		for _, r := range replicas {
			wg.Go(func() {
				_ = r.keeper.AdvanceOpen(t.Context(), 10) // the other may be first
				_, _ = r.pipeline.Pass(t.Context(), p.cfg.ID)
			})
		}
		wg.Wait()
		must(t, p.chain.Mine(t.Context(), 1))
		open, err := store.Payouts{Store: p.store}.Open(t.Context(), 1)
		must(t, err)
		if len(open) == 0 {
			return
		}
	}
	t.Fatal("the payout has not ended")
}

// A beneficiary may be a contract that takes no coin, or that uses up whatever it is given.
func TestABeneficiaryThatRefusesCoinsIsNotSentToAndKeepsItsMoney(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.SVC)
	for what, code := range map[string]string{
		"it reverts":                  "0x60006000fd",
		"it never ends":               "0x5b600056",
		"it wants 12 millions of gas": "0x62b71b005a10600a57005b60006000fd",
	} {
		must(t, devchain.Ask(t.Context(), p.chain.URL, nil, "anvil_setCode", p.address.String(), code))
		asset, _ := chain.Config{ID: chain.SVC}.Asset(chain.Coin)
		_, err := p.pipeline.Prepare(t.Context(), sending.Request{Chain: asset.Chain, Key: sending.Payout,
			Purpose: payout.Purpose, Ref: what, To: p.address, Value: chain.NewAmount(1)})
		var revert *chain.Revert
		if !errors.As(err, &revert) {
			t.Errorf("%s: got the error %v, want a revert", what, err)
		}
	}
	failed := p.until(t, p.ask(t).ID, payout.Failed)
	if !failed.Transaction.IsZero() {
		t.Errorf("got transaction %s, want none", failed.Transaction)
	}
	if got, want := fmt.Sprint(p.said), "[reserve give back]"; got != want {
		t.Errorf("the books: got %s, want %s", got, want)
	}
}
