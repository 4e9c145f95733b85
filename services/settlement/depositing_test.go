package settlement

import (
	"context"
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/screen"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

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

// fund gives the consumer dollars, in a final block.
func (d *depositing) fund(t *testing.T) {
	t.Helper()
	holder, err := chain.ParseAddress(consumer)
	must(t, err)
	must(t, d.chain.Mint(t.Context(), holder, 1_000_000_000))
	must(t, d.chain.Mine(t.Context(), 3))
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
