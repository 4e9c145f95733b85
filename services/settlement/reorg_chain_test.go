package settlement

import (
	"context"
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/screen"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// tell calls a method of the chain's RPC.
func tell(t *testing.T, c *devchain.Chain, method string, args ...any) {
	t.Helper()
	must(t, devchain.Ask(t.Context(), c.URL, nil, method, args...))
}

// reorg has the chain forget its last blocks with all that is in them, and make as many that are empty.
func reorg(t *testing.T, c *devchain.Chain, blocks int) {
	t.Helper()
	tell(t, c, "anvil_reorg", blocks, []any{})
}

// advance makes one look at a payout and at the transactions of its chain.
func (p *paying) advance(t *testing.T, id payout.ID) payout.Payout {
	t.Helper()
	_, err := p.keeper.Advance(t.Context(), id)
	must(t, err)
	if _, err := p.pipeline.Pass(t.Context(), chain.ID(p.chain.ID())); err != nil {
		t.Log(err)
	}
	now, err := p.keeper.Advance(t.Context(), id)
	must(t, err)
	return now
}

// holds returns what the payee has of the dollar in the newest final block.
func (p *paying) holds(t *testing.T) string {
	t.Helper()
	block, err := p.reader.Final(t.Context())
	must(t, err)
	usd, err := chain.ParseAddress(devchain.USD)
	must(t, err)
	got, err := p.reader.TokenBalance(t.Context(), usd, p.address, block)
	must(t, err)
	return got.String()
}

// call returns the one transaction that pays a payout, with all that came of it.
func (p *paying) call(t *testing.T, id payout.ID) sending.Status {
	t.Helper()
	status, ok, err := store.Sending{Store: p.store}.Call(t.Context(), payout.Purpose, id.String())
	must(t, err)
	if !ok {
		t.Fatalf("the call of payout %s: got none, want one", id)
	}
	return status
}

// wantSaid checks what the books were told, in order.
func (p *paying) wantSaid(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(p.said, want) {
		t.Errorf("%s: got the posts %q, want %q", when, p.said, want)
	}
}

func TestAPayoutThatAReorgTakesAwayIsMinedAgainAndPostedOnce(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.ask(t).ID
	if got := p.advance(t, id).State; got != payout.Submitted {
		t.Fatalf("sent: got %s, want %s", got, payout.Submitted)
	}
	first := p.call(t, id).Signed[0].Hash
	mined := func(when string, want bool) {
		t.Helper()
		receipt, found, err := p.reader.Receipt(t.Context(), first)
		must(t, err)
		if found != want {
			t.Fatalf("%s: the transaction is in a block: got %t, want %t", when, found, want)
		}
		if receipt.Final {
			t.Fatalf("%s: got a final receipt, want none", when)
		}
	}
	mined("sent", true)
	reorg(t, p.chain, 1)
	mined("after the reorg", false)
	if got := p.advance(t, id).State; got != payout.Submitted {
		t.Errorf("after the reorg: got %s, want %s", got, payout.Submitted)
	}
	p.wantSaid(t, "after the reorg", "reserve")
	mined("sent again", true)
	must(t, p.chain.Mine(t.Context(), 2))
	p.until(t, id, payout.Confirmed)
	if got := p.holds(t); got != "99000000" {
		t.Errorf("received: got %s, want 99000000", got)
	}
	if got := len(p.call(t, id).Signed); got != 1 {
		t.Errorf("transactions that were signed: got %d, want 1: the same bytes are sent again", got)
	}
	must(t, p.pipeline.Recheck(t.Context(), chain.Base))
	halts, err := store.Sending{Store: p.store}.Halts(t.Context())
	must(t, err)
	if len(halts) > 0 {
		t.Errorf("halts: got %v, want none: no block that was final has changed", halts)
	}
	p.wantSaid(t, "at the end", "reserve", "confirm")
}

// depositing is a deposit address on a chain, with the parts that watch it and credit what arrives.
type depositing struct {
	*paying
	address chain.Address
	watcher *watch.Watcher
	lifter  *watch.Lifter
	decider *deposit.Decider
	poster  *deposit.Poster
	facts   factBooks
}

// factBooks notes the facts of deposits that are posted.
type factBooks struct{ list *[]deposit.Fact }

// Post implements deposit.Ledger.
func (b factBooks) Post(_ context.Context, fact deposit.Fact, _ deposit.Transfer) (string, error) {
	*b.list = append(*b.list, fact)
	return "01a21e3e-4d3a-7740-881e-0eee9d026557", nil
}

// newDepositing adds a deposit address to the chain of a payer.
func newDepositing(t *testing.T, p *paying) *depositing {
	t.Helper()
	id := chain.ID(p.chain.ID())
	d := &depositing{paying: p, facts: factBooks{new([]deposit.Fact)}}
	kept, watching := store.Deposits{Store: p.store}, store.Watch{Store: p.store}
	cfg := p.reader.Config()
	deriver, err := deposit.NewDeriver(xpub)
	must(t, err)
	a, err := kept.Address(t.Context(), ids.AccountID{0: 1, 6: 0x70, 8: 0x80, 15: 7}, deriver.At)
	must(t, err)
	d.address = a.Address
	d.watcher = &watch.Watcher{Chain: p.reader, Store: watching, Config: cfg,
		Small: func(chain.Asset, chain.Amount) bool { return false }}
	d.lifter = &watch.Lifter{Store: watching, Chains: map[chain.ID]watch.Reader{id: p.reader}}
	d.decider = &deposit.Decider{Store: kept, Screener: passes{}, Chains: map[chain.ID]deposit.Balances{id: p.reader},
		Config: chain.Configs{cfg}, Halted: watching.Halted}
	d.poster = &deposit.Poster{Store: kept, Ledger: d.facts}
	return d
}

// passes lets everybody pass.
type passes struct{}

// Check implements deposit.Screener.
func (passes) Check(context.Context, chain.Address) (screen.Verdict, error) {
	return screen.Verdict{Version: "v1"}, nil
}

// watch makes passes and a look, credits what can be credited, and reports whether the chain is halted.
func (d *depositing) watch(t *testing.T) (halted bool) {
	t.Helper()
	for range maxPasses {
		r, err := d.watcher.Pass(t.Context())
		must(t, err)
		if halted = r.Halted; r.Halted || r.Caught {
			break
		}
	}
	must(t, d.watcher.Look(t.Context()))
	_, err := d.decider.Pass(t.Context())
	must(t, err)
	_, err = d.poster.Pass(t.Context())
	must(t, err)
	return halted
}

// text is what a query says.
func (d *depositing) text(t *testing.T, query string) (got string) {
	t.Helper()
	must(t, d.pool.QueryRow(t.Context(), query).Scan(&got))
	return got
}

// wantTransfer checks the states of the transfers, and what the books were told of them.
func (d *depositing) wantTransfer(t *testing.T, when, state string, facts ...deposit.Fact) {
	t.Helper()
	if got := d.text(t, `SELECT coalesce(string_agg(state, ',' ORDER BY state), '') FROM transfer`); got != state {
		t.Errorf("%s: got the transfer %q, want %q", when, got, state)
	}
	if !slices.Equal(*d.facts.list, facts) {
		t.Errorf("%s: got the facts %v, want %v", when, *d.facts.list, facts)
	}
}

// pay has a consumer send $50 to the deposit address.
func (d *depositing) pay(t *testing.T) {
	t.Helper()
	value := chain.NewAmount(50_000_000).Bytes()
	data := slices.Concat([]byte{0xa9, 0x05, 0x9c, 0xbb}, make([]byte, 12), d.address[:], value[:])
	must(t, d.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.USD, Data: data}))
}

func TestADepositThatAReorgTakesAwayBeforeItIsFinalIsNeverCredited(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	d := newDepositing(t, p)
	d.fund(t)
	d.watch(t)
	d.pay(t)
	d.watch(t)
	d.wantTransfer(t, "in a block that is not final", "seen")
	reorg(t, p.chain, 1)
	d.watch(t)
	must(t, p.chain.Mine(t.Context(), 3))
	if d.watch(t) {
		t.Error("after a reorg above the final block: got a halt, want none")
	}
	d.wantTransfer(t, "after the reorg", "dropped")
	d.pay(t) // the consumer pays anew, with the same nonce
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	d.watch(t)
	d.wantTransfer(t, "paid anew", "credited,dropped", deposit.FactDeposited)
}

// fund gives the consumer dollars, in a final block.
func (d *depositing) fund(t *testing.T) {
	t.Helper()
	holder, err := chain.ParseAddress(consumer)
	must(t, err)
	must(t, d.chain.Mint(t.Context(), holder, 1_000_000_000))
	must(t, d.chain.Mine(t.Context(), 3))
}

func TestAChangedFinalBlockStopsTheChainUntilAnOperatorNamesItAndNothingIsPaidTwice(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	d := newDepositing(t, p)
	d.fund(t)
	d.watch(t)
	// A payout and a deposit are final, paid and credited.
	id := p.ask(t).ID
	p.until(t, id, payout.Confirmed)
	d.pay(t)
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	d.wantTransfer(t, "final", "credited", deposit.FactDeposited)
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	was := p.call(t, id)

	head, err := p.reader.Head(t.Context())
	must(t, err)
	reorg(t, p.chain, int(head-was.End.Block)+1)
	for range 3 {
		if !d.watch(t) {
			t.Fatal("a final block has changed: got no halt, want one")
		}
		must(t, p.pipeline.Recheck(t.Context(), chain.Base))
	}
	sends := store.Sending{Store: p.store}
	halts, err := sends.Halts(t.Context())
	must(t, err)
	if len(halts) != 1 || halts[0].Cause != sending.FinalReorged {
		t.Errorf("halts of what is sent: got %v, want one by %s", halts, sending.FinalReorged)
	}
	if _, err := p.pipeline.Prepare(t.Context(), was.Call.Request); err == nil {
		t.Error("a payout on a halted chain: got no error, want a halt")
	}
	d.wantTransfer(t, "halted", "credited", deposit.FactDeposited)
	p.wantSaid(t, "halted", "reserve", "confirm")

	// The stored bytes are mined again, so the payee has the money in the new history too.
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	if got := p.holds(t); got != "99000000" {
		t.Errorf("received in the new history: got %s, want 99000000", got)
	}
	halt, open, err := store.Watch{Store: p.store}.OpenHalt(t.Context(), chain.Base)
	must(t, err)
	if !open {
		t.Fatal("the halt: got none, want one until an operator lifts it")
	}
	if _, err := d.lifter.Lift(t.Context(), chain.Base, halt.Was, "operator:ann", "no"); err == nil {
		t.Error("lifted by the hash of before: got no error, want one")
	}
	_, err = d.lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "the network says so")
	must(t, err)
	must(t, sends.Lift(t.Context(), chain.Base, sending.FinalReorged, "operator:ann", "it was mined again"))
	d.watch(t) // it finds the halt lifted

	for range 3 {
		if d.watch(t) {
			t.Fatal("lifted: got a halt, want none")
		}
		must(t, p.pipeline.Recheck(t.Context(), chain.Base))
		p.advance(t, id)
	}
	d.wantTransfer(t, "lifted", "dropped", deposit.FactDeposited, deposit.FactGone)
	p.wantSaid(t, "lifted", "reserve", "confirm")
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	if got := len(p.gas); got != 1 {
		t.Errorf("costs that were posted: got %d, want 1", got)
	}
	if now := p.call(t, id); len(now.Signed) != 1 || now.End.Transaction != was.End.Transaction {
		t.Errorf("the call: got %d transactions, the end %v, want 1 and %v", len(now.Signed), now.End, was.End)
	}
	if _, _, err := p.pipeline.Check(t.Context(), chain.Base, sending.Payout); err != nil {
		t.Errorf("the next payout: got the error %v, want none", err)
	}
	d.wantBooks(t)
}

// wantBooks checks that the rows agree.
func (d *depositing) wantBooks(t *testing.T) {
	t.Helper()
	report, err := Verify(t.Context(), d.pool)
	must(t, err)
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			t.Errorf("%s: got %d drifts (%q), want none", i.Name, i.Drift, i.Examples)
		}
	}
}
