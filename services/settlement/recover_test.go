package settlement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// kept is the books and the hub of a test, which lose nothing.
type kept struct {
	list  map[payout.ID]*adopt.Booked
	order []payout.ID
	chain chain.ID
}

func (k *kept) Balances(_ context.Context, of ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	for _, b := range k.list {
		if b.Provider == of && b.End == adopt.InFlight {
			inFlight += b.Gross
		}
	}
	return 1_000 * money.USD, inFlight, nil
}

func (k *kept) Reserve(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	if b := k.list[p.ID]; b != nil {
		return b.Entry, nil
	}
	k.order = append(k.order, p.ID)
	k.list[p.ID] = &adopt.Booked{ID: p.ID, Provider: p.ProviderID, Gross: p.Gross, End: adopt.InFlight,
		Entry: ids.EntryID{0: 1, 15: byte(len(k.order))}, At: time.Now()}
	return k.list[p.ID].Entry, nil
}

// end is posted once: another end is an error, as in the books.
func (k *kept) end(p payout.Payout, as adopt.End) (ids.EntryID, error) {
	b := k.list[p.ID]
	if b.End != adopt.InFlight && b.End != as {
		return ids.EntryID{}, fmt.Errorf("payout %s ended as %s, not as %s", p.ID, b.End, as)
	}
	b.End = as
	return ids.EntryID{0: 2, 15: b.Entry[15]}, nil
}

func (k *kept) Confirm(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	b := k.list[p.ID]
	units, _, _ := p.Amount.Units(map[bool]int{true: chain.CoinDecimals, false: 6}[k.chain == chain.SVC])
	if b.End == adopt.Confirmed && (b.Units != units || b.Quote.Rate != p.Quote.Rate) {
		return ids.EntryID{}, fmt.Errorf("payout %s was another one: %d units at %d", p.ID, units, p.Quote.Rate)
	}
	b.Token, b.Units, b.Quote = k.chain.Token(k.chain.PaysOut()), units, p.Quote
	return k.end(p, adopt.Confirmed)
}

func (k *kept) GiveBack(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	return k.end(p, adopt.Failed)
}

func (*kept) Convert(context.Context, payout.Conversion) (ids.EntryID, error) {
	return ids.EntryID{}, errors.New("nothing is converted here")
}

func (*kept) Payee(_ context.Context, of ids.ProviderID) (payout.Payee, error) {
	return payout.Payee{Address: chain.Address{0: 0x77, 19: of[15]}}, nil
}

func (k *kept) Payouts(context.Context, time.Time, int) (list []adopt.Booked, err error) {
	for _, id := range k.order {
		list = append(list, *k.list[id])
	}
	return list, nil
}

// losing is a payer whose database may be lost.
type losing struct {
	*paying
	books   *kept
	adopter *adopt.Adopter
}

func newLosing(t *testing.T, id chain.ID) *losing {
	t.Helper()
	return newLosingOn(t, startChain(t, id))
}

// newLosingOn is newLosing on a chain of the test's own.
func newLosingOn(t *testing.T, on *devchain.Chain) *losing {
	t.Helper()
	id := chain.ID(on.ID())
	l := &losing{paying: newPayingOn(t, on), books: &kept{list: map[payout.ID]*adopt.Booked{}, chain: id}}
	l.begin(t)
	return l
}

// lose goes on with an empty database.
func (l *losing) lose(t *testing.T) {
	t.Helper()
	l.start(t, l.cfg, l.signer)
	l.begin(t)
}

func (l *losing) begin(t *testing.T) {
	t.Helper()
	asset, _ := l.cfg.Asset(l.cfg.ID.PaysOut())
	assets := map[chain.ID]chain.Asset{l.cfg.ID: asset}
	l.keeper = payout.NewKeeper(payout.Config{Assets: assets, Alone: payout.Alone, AloneDaily: 5 * payout.Alone},
		payout.Deps{Store: store.Payouts{Store: l.store}, Ledger: l.books, Payees: l.books, Screener: l.desk, Quotes: l.desk,
			Wallet: hotWallet{chains: map[chain.ID]*evm.Chain{l.cfg.ID: l.reader}, assets: assets}, Sender: l.pipeline,
			Clock: clock.System, Random: rand.Reader})
	c, err := adoptable(l.cfg)
	must(t, err)
	c.Node = l.reader
	l.adopter = adopt.New(adopt.Deps{Store: store.Adoptions{Store: l.store}, Signer: peers.ChainSigner{Client: l.signer},
		Books: l.books, Payees: l.books, Chains: []adopt.Chain{c}})
}

func provider(n byte) ids.ProviderID { return ids.ProviderID{0: 1, 6: 0x70, 8: 0x80, 15: n} }

// want asks for a payout of a provider, as far as it goes without a block.
func (l *losing) want(t *testing.T, n byte, usd money.NanoUSD) payout.ID {
	t.Helper()
	must(t, store.SettlementChains{Store: l.store}.SetSettlementChain(t.Context(), provider(n), l.cfg.ID, "provider"))
	op := payout.Operation{ProviderID: provider(n), Key: fmt.Sprint("k", n),
		Actor: "user:0192f0c0-0000-7000-8000-000000000001"}
	p, err := l.keeper.Request(t.Context(), op, usd*money.USD, 0)
	must(t, err)
	return p.ID
}

// call is the call of a payout.
func (l *losing) call(t *testing.T, id payout.ID) sending.Call {
	t.Helper()
	status, ok, err := store.Payouts{Store: l.store}.Call(t.Context(), id)
	must(t, err)
	if !ok {
		t.Fatalf("payout %s has no call", id)
	}
	return status.Call
}

// sign has the signer sign a call, and sends it or not.
func (l *losing) sign(t *testing.T, c sending.Call, send bool) {
	t.Helper()
	fees, err := l.reader.SuggestFees(t.Context())
	must(t, err)
	signed, err := peers.ChainSigner{Client: l.signer}.Sign(t.Context(), c, false, fees)
	must(t, err)
	if send {
		_, err = l.reader.Broadcast(t.Context(), signed.Raw)
		must(t, err)
	}
}

func (l *losing) adopt(t *testing.T, w adopt.Words) adopt.Plan {
	t.Helper()
	p, err := l.adopter.Adopt(t.Context(), l.cfg.ID, time.Time{}, w,
		adopt.By{Actor: "operator:ann", Reason: "restored from an hour ago"})
	must(t, err)
	return p
}

// holds is what a provider's address has received.
func (l *losing) holds(t *testing.T, n byte) string {
	t.Helper()
	address := chain.Address{0: 0x77, 19: n}
	block, err := l.reader.Final(t.Context())
	must(t, err)
	asset, _ := l.cfg.Asset(l.cfg.ID.PaysOut())
	var got chain.Amount
	if asset.Kind == chain.Coin {
		got, err = l.reader.Balance(t.Context(), address, block)
	} else {
		got, err = l.reader.TokenBalance(t.Context(), asset.Contract, address, block)
	}
	must(t, err)
	units, _, _ := got.Units(asset.Decimals)
	return fmt.Sprint(units)
}

// sound checks that the database holds, and that nothing is left to adopt.
func (l *losing) sound(t *testing.T) {
	t.Helper()
	report, err := l.store.Audit(t.Context())
	must(t, err)
	if report.Drift != 0 {
		t.Errorf("verify: got %+v, want no drift", report)
	}
	p, err := l.adopter.Plan(t.Context(), l.cfg.ID, time.Time{}, adopt.Words{})
	must(t, err)
	if !p.Empty() {
		t.Errorf("what is left: got %s, want nothing", lines(p))
	}
	if _, _, err := l.pipeline.Check(t.Context(), l.cfg.ID, sending.Payout); err != nil {
		t.Errorf("sending: got the error %v, want that the halt is lifted", err)
	}
}

// lines is a plan, for comparisons.
func lines(p adopt.Plan) string {
	text := ""
	for _, c := range p.Calls {
		text += fmt.Sprintf("%s %d %s %s; ", c.Nonce.Key, c.Nonce.Nonce, c.What, c.Action)
	}
	for _, b := range p.Payouts {
		text += fmt.Sprintf("$%s %s %s; ", b.Lost.Gross, b.Lost.End, b.Action)
	}
	return text
}

func TestALostDatabaseAdoptsWhatTheChainTheSignerAndTheBooksHave(t *testing.T) {
	t.Parallel()
	for _, id := range []chain.ID{chain.Base, chain.SVC} {
		t.Run(id.String(), func(t *testing.T) {
			t.Parallel()
			l := newLosing(t, id)
			confirmed := l.want(t, 1, 100)
			l.until(t, confirmed, payout.Confirmed)
			mined := l.want(t, 2, 50)
			l.sign(t, l.call(t, mined), true)
			must(t, l.chain.Mine(t.Context(), 70))
			signed := l.want(t, 3, 60)
			l.sign(t, l.call(t, signed), false)
			unsent := payout.Payout{Draft: payout.Draft{ID: payout.ID{0: 1, 6: 0x70, 8: 0x80}, ProviderID: provider(4),
				Gross: 70 * money.USD}}
			_, err := l.books.Reserve(t.Context(), unsent)
			must(t, err)

			l.lose(t)
			if _, _, err := l.pipeline.Check(t.Context(), id, sending.Payout); !errors.Is(err, sending.ErrHalted) {
				t.Fatalf("the lost database: got the error %v, want %v", err, sending.ErrHalted)
			}
			const want = "payout 0 payout record; payout 1 payout record; payout 2 payout sign_again; " +
				"$100.00 confirmed follow; $50.00 in_flight follow; $60.00 in_flight follow; $70.00 in_flight give_back; "
			if got := lines(l.adopt(t, adopt.Words{})); got != want {
				t.Fatalf("the plan: got %s\nwant %s", got, want)
			}
			for _, one := range []payout.ID{confirmed, mined, signed} {
				l.until(t, one, payout.Confirmed)
			}
			l.until(t, unsent.ID, payout.Cancelled)
			l.sound(t)
			must(t, l.chain.Mine(t.Context(), 70))
			rate := map[bool]int{true: 2_000_000_000, false: 1_000_000}[id == chain.SVC]
			for n, usd := range map[byte]int{1: 99, 2: 49, 3: 59, 4: 0} {
				if got, want := l.holds(t, n), fmt.Sprint(usd*rate); got != want {
					t.Errorf("provider %d received: got %s, want %s", n, got, want)
				}
			}
		})
	}
}

// A provider that asks for its collateral while the chain is halted, or had done so before, must not keep all of the
// chain from being adopted.
func TestARefundOfCollateralHoldsNoAdoption(t *testing.T) {
	t.Parallel()
	l := newLosing(t, chain.Base)
	paid := l.want(t, 1, 100)
	l.until(t, paid, payout.Confirmed)
	asked := l.want(t, 2, 50)
	l.sign(t, l.call(t, asked), true)
	must(t, l.chain.Mine(t.Context(), 8))
	l.lose(t)
	for n := byte(1); n <= 2; n++ {
		l.forge(t, fmt.Sprintf(`INSERT INTO provider (provider_id) VALUES ('%s');
			INSERT INTO collateral_refund (refund_id, provider_id, asked_at, due_at)
				VALUES (gen_random_uuid(), '%[1]s', now(), now() + interval '7 days');
			INSERT INTO provider_suspension (provider_id, cause, holds) VALUES ('%[1]s', 'refund', true)`, provider(n)))
	}
	const want = "payout 0 payout record; payout 1 payout record; $100.00 confirmed follow; $50.00 in_flight follow; "
	if got := lines(l.adopt(t, adopt.Words{})); got != want {
		t.Fatalf("the plan: got %s\nwant %s", got, want)
	}
	for _, one := range []payout.ID{paid, asked} {
		l.until(t, one, payout.Confirmed)
	}
	l.sound(t)
}

func TestWhatNothingExplainsWaitsForAnOperatorsWord(t *testing.T) {
	t.Parallel()
	l := newLosing(t, chain.Base)
	usd, _ := chain.ParseAddress(devchain.USD)
	stray := func(nonce uint64) sending.Call {
		return sending.Prepared{Request: sending.Request{Chain: chain.Base, Key: sending.Payout, To: usd,
			Data: sending.Transfer(chain.Address{0: 0x66}, chain.NewAmount(5))}, Sender: l.hot, Gas: 100_000}.At(nonce)
	}
	l.sign(t, stray(0), true)
	must(t, l.chain.Mine(t.Context(), 8))
	l.sign(t, stray(1), false)
	unsent := payout.Payout{Draft: payout.Draft{ID: payout.ID{0: 1, 6: 0x70, 8: 0x80}, ProviderID: provider(4),
		Gross: 70 * money.USD}}
	_, err := l.books.Reserve(t.Context(), unsent)
	must(t, err)
	plan := l.adopt(t, adopt.Words{})
	if got, want := lines(plan), "payout 0 unknown ask; payout 1 unknown cancel; $70.00 in_flight wait; "; got != want {
		t.Fatalf("without a word: got %s\nwant %s", got, want)
	}
	if _, _, err := l.pipeline.Check(t.Context(), chain.Base, sending.Payout); !errors.Is(err, sending.ErrHalted) {
		t.Errorf("without a word: got the error %v, want %v", err, sending.ErrHalted)
	}
	must(t, l.chain.Mine(t.Context(), 8))
	words := adopt.Words{Accept: map[chain.Hash]bool{plan.Calls[0].Nonce.Sent.Hash: true}}
	plan = l.adopt(t, words)
	if got, want := lines(plan), "payout 0 unknown record; payout 1 cancel record; $70.00 in_flight ask; "; got != want {
		t.Fatalf("with a word: got %s\nwant %s", got, want)
	}
	words.GiveBack = map[payout.ID]bool{unsent.ID: true}
	if got, want := lines(l.adopt(t, words)), "$70.00 in_flight give_back; "; got != want {
		t.Fatalf("with a word for the payout: got %s\nwant %s", got, want)
	}
	l.until(t, unsent.ID, payout.Cancelled)
	l.sound(t)
	if got := l.holds(t, 4); got != "0" {
		t.Errorf("provider 4 received: got %s, want nothing", got)
	}
}
