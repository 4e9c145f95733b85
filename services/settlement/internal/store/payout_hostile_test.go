package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// purse is the books of any number of providers, of which each begins with the same earnings. It implements
// payout.Ledger.
type purse struct {
	begins money.NanoUSD

	mu       sync.Mutex
	taken    map[ids.ProviderID]money.NanoUSD
	inFlight map[ids.ProviderID]money.NanoUSD
	entries  map[string]ids.EntryID
}

func newPurse(begins money.NanoUSD) *purse {
	return &purse{begins: begins, taken: map[ids.ProviderID]money.NanoUSD{}, inFlight: map[ids.ProviderID]money.NanoUSD{},
		entries: map[string]ids.EntryID{}}
}

func (p *purse) Balances(_ context.Context, id ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begins - p.taken[id], p.inFlight[id], nil
}

// post posts a fact once.
func (p *purse) post(fact string, of ids.ProviderID, takes, flies money.NanoUSD) (ids.EntryID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry, ok := p.entries[fact]; ok {
		return entry, nil
	}
	if p.taken[of]+takes > p.begins {
		return ids.EntryID{}, fault.New(fault.Precondition, fault.InsufficientEarnings, "less than that")
	}
	p.taken[of] += takes
	p.inFlight[of] += flies
	p.entries[fact] = ids.EntryID{0: 1, 14: byte(len(p.entries) >> 8), 15: byte(len(p.entries) + 1)}
	return p.entries[fact], nil
}

func (p *purse) Reserve(_ context.Context, of payout.Payout) (ids.EntryID, error) {
	return p.post("reserve "+of.ID.String(), of.ProviderID, of.Gross, of.Gross)
}

func (p *purse) Confirm(_ context.Context, of payout.Payout) (ids.EntryID, error) {
	return p.post("confirm "+of.ID.String(), of.ProviderID, 0, -of.Gross)
}

func (p *purse) GiveBack(_ context.Context, of payout.Payout) (ids.EntryID, error) {
	return p.post("give back "+of.ID.String(), of.ProviderID, -of.Gross, -of.Gross)
}

func (p *purse) Convert(_ context.Context, c payout.Conversion) (ids.EntryID, error) {
	return p.post("convert "+c.ID.String(), c.ProviderID, c.Amount, 0)
}

// paysTo is where providers are paid, all at one address; it implements payout.Payees.
type paysTo chain.Address

func (a paysTo) Payee(_ context.Context, id ids.ProviderID) (payout.Payee, error) {
	return payout.Payee{Account: ids.AccountID(id), Address: chain.Address(a)}, nil
}

// anybody screens addresses; it implements payout.Screener.
type anybody struct{}

func (anybody) Screen(context.Context, chain.Address) (bool, string, error) { return false, "v1", nil }

// outlet is the pipeline of a chain on which transfers fail; it implements payout.Sender and payout.Wallet.
type outlet struct{}

func (outlet) Check(context.Context, chain.ID, sending.Key) (chain.Address, uint64, error) {
	return hot, 0, nil
}

func (outlet) Prepare(context.Context, sending.Request) (sending.Prepared, error) {
	return sending.Prepared{}, fmt.Errorf("estimate the gas: %w", &chain.Revert{Reason: "the recipient refuses"})
}

func (outlet) Holds(context.Context, chain.ID, chain.Address) (chain.Amount, error) {
	return chain.NewAmount(1 << 62), nil
}

// counter is two replicas that pay providers out of one purse.
type counter struct {
	keepers [2]*payout.Keeper
	rows    store.Payouts
	purse   *purse
}

func newCounter(t *testing.T, cfg payout.Config, to chain.Address, begins money.NanoUSD) *counter {
	t.Helper()
	st := store.New(pgtest.Pool(t, store.Schema, store.Role, store.Migrations))
	c := &counter{rows: store.Payouts{Store: st}, purse: newPurse(begins)}
	cfg.Assets = map[chain.ID]chain.Asset{chain.Base: {Chain: chain.Base, Kind: chain.USDC, Contract: usdc, Decimals: 6}}
	for i := range c.keepers {
		c.keepers[i] = payout.NewKeeper(cfg, payout.Deps{Store: c.rows, Ledger: c.purse, Payees: paysTo(to),
			Screener: anybody{}, Wallet: outlet{}, Sender: outlet{}, Clock: clock.System, Random: rand.Reader})
	}
	return c
}

// has fails the test unless a provider has had so many payouts.
func (c *counter) has(t *testing.T, id ids.ProviderID, want int) {
	t.Helper()
	_, n, err := c.rows.OfProvider(t.Context(), id, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("payouts: got %d, want %d", n, want)
	}
}

// ordinary is a configuration that approves small payouts by itself.
var ordinary = payout.Config{Alone: payout.Alone, AloneDaily: 5_000 * money.USD}

// atOnce does something n times at once, and returns the errors.
func atOnce(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errs
}

func TestHostile48_AHundredRequestsAtOnceAreOnePayout(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(i int) string{
		"with one key":       func(int) string { return "k" },
		"each with a key":    func(i int) string { return fmt.Sprint(i) },
		"with keys of pairs": func(i int) string { return fmt.Sprint(i / 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, id := newCounter(t, payout.Config{}, chain.Address{7}, 10_000*money.USD), provider(t)
			wrong := 0
			for _, err := range atOnce(100, func(i int) error {
				_, err := c.keepers[i%2].Request(t.Context(), operationOf(id, key(i)), 10*money.USD, 0)
				return err
			}) {
				if err != nil && !fault.Is(err, fault.PayoutPending) {
					wrong++
					t.Logf("got the error %v", err)
				}
			}
			if wrong > 0 {
				t.Errorf("errors other than %s: got %d, want none", fault.PayoutPending, wrong)
			}
			c.has(t, id, 1)
			if got := c.purse.taken[id]; got != 10*money.USD {
				t.Errorf("set aside: got $%s, want $10", got)
			}
		})
	}
}

func TestHostile48_TheHourHoldsWhateverBecameOfThePayout(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, payout.Config{}, chain.Address{7}, 10_000*money.USD), provider(t)
	p, err := c.keepers[0].Request(t.Context(), operationOf(id, "first"), 10*money.USD, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.keepers[1].CancelOwn(t.Context(), p.ID, id, user); err != nil {
		t.Fatal(err)
	}
	for i, err := range atOnce(100, func(i int) error {
		_, err := c.keepers[i%2].Request(t.Context(), operationOf(id, fmt.Sprint(i)), 10*money.USD, 0)
		return err
	}) {
		if !fault.Is(err, fault.PayoutTooFrequent) {
			t.Errorf("request %d: got the error %v, want %s", i, err, fault.PayoutTooFrequent)
		}
	}
	c.has(t, id, 1)
}

func TestHostile52_NoMoreIsConvertedAndPaidThanIsPayable(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, payout.Config{}, chain.Address{7}, 100*money.USD), provider(t)
	errs := atOnce(60, func(i int) error {
		if i%2 == 0 {
			_, err := c.keepers[i/2%2].Request(t.Context(), operationOf(id, fmt.Sprint("p", i)), 90*money.USD, 0)
			return err
		}
		_, err := c.keepers[i/2%2].Convert(t.Context(), operationOf(id, fmt.Sprint("c", i)), 9*money.USD)
		return err
	})
	for i, err := range errs {
		if err != nil && !fault.Is(err, fault.InsufficientEarnings) && !fault.Is(err, fault.PayoutPending) &&
			!fault.Is(err, fault.PayoutTooFrequent) {
			t.Errorf("call %d: got the error %v, want a refusal for want of money", i, err)
		}
	}
	if got := c.purse.taken[id]; got > 100*money.USD {
		t.Errorf("taken: got $%s, want at most $100", got)
	}
}

// Whoever converts what there is not leaves nothing behind.
func TestAConversionOfWhatThereIsNotLeavesNoRow(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, payout.Config{}, chain.Address{7}, money.USD), provider(t)
	for i := range 100 {
		_, err := c.keepers[0].Convert(t.Context(), operationOf(id, fmt.Sprint(i)), 2*money.USD)
		if !fault.Is(err, fault.InsufficientEarnings) {
			t.Fatalf("got the error %v, want %s", err, fault.InsufficientEarnings)
		}
	}
	_, known, err := c.rows.KnownConversion(t.Context(), operationOf(id, "0"))
	if err != nil {
		t.Fatal(err)
	}
	if known {
		t.Error("got a conversion, want none")
	}
}

func TestAConversionIsRepeatedAfterTheMoneyIsGone(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, payout.Config{}, chain.Address{7}, money.USD), provider(t)
	var first payout.Conversion
	for i := range 2 {
		made, err := c.keepers[i].Convert(t.Context(), operationOf(id, "k"), money.USD)
		if err != nil {
			t.Fatalf("time %d: got the error %v, want the conversion", i, err)
		}
		if i == 0 {
			first = made
		}
		if made.ID != first.ID {
			t.Errorf("time %d: got conversion %s, want %s", i, made.ID, first.ID)
		}
	}
}

// One provider whose payouts always fail would use up what is approved of all others without a person.
func TestFailedPayoutsDoNotUseUpTheDayOfOthers(t *testing.T) {
	t.Parallel()
	c := newCounter(t, ordinary, chain.Address{7}, 10_000*money.USD)
	for i := range 8 {
		p, err := c.keepers[i%2].Request(t.Context(), operationOf(provider(t), "k"), 1_000*money.USD, 0)
		if err != nil {
			t.Fatal(err)
		}
		if p.State != payout.Failed {
			t.Errorf("payout %d: got %s that waits for %q, want failed", i, p.State, p.Waiting)
		}
	}
	report, err := c.rows.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			t.Errorf("%s: got %d that break it (%v), want none", i.Name, i.Drift, i.Examples)
		}
	}
}

func TestThePlatformPaysNothingToItself(t *testing.T) {
	t.Parallel()
	treasury := chain.Address{0xee}
	cfg := ordinary
	cfg.Own = map[chain.ID][]chain.Address{chain.Base: {treasury}}
	for name, to := range map[string]chain.Address{"the treasury": treasury, "the token": usdc, "nobody": {}} {
		c := newCounter(t, cfg, to, 100*money.USD)
		_, err := c.keepers[0].Request(t.Context(), operationOf(provider(t), "k"), 10*money.USD, 0)
		if !fault.Is(err, fault.InvalidValue) && !fault.Is(err, fault.BeneficiaryMissing) {
			t.Errorf("%s: got the error %v, want a refusal of the address", name, err)
		}
	}
	c := newCounter(t, cfg, hot, 100*money.USD)
	p, err := c.keepers[0].Request(t.Context(), operationOf(provider(t), "k"), 10*money.USD, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(p.State)+", "+p.Reason, "failed, the beneficiary address is the platform's own"; got != want {
		t.Errorf("the hot wallet: got %s, want %s", got, want)
	}
}

// Two operators are two persons. A program is none, however many names it has, and no name is nobody.
func TestOneOperatorIsNotTwo(t *testing.T) {
	t.Parallel()
	c := newCounter(t, ordinary, chain.Address{7}, 20_000*money.USD)
	p, err := c.keepers[0].Request(t.Context(), operationOf(provider(t), "k"), 10_001*money.USD, 0)
	if err != nil {
		t.Fatal(err)
	}
	approve := func(name string) (payout.Payout, error) {
		return c.keepers[0].Approve(actor.WithOperator(t.Context(), name), p.ID, "it is due")
	}
	if _, err := approve(""); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an operator without a name: got the error %v, want %s", err, fault.InvalidValue)
	}
	for _, program := range []string{"bot", "bootstrap.root"} {
		if _, err := approve(program); !fault.Is(err, fault.TransitionNotAllowed) {
			t.Errorf("%s: got the error %v, want %s", program, err, fault.TransitionNotAllowed)
		}
	}
	// What a program consented to when programs counted.
	if _, err := c.rows.Change(t.Context(), p.ID, func(p *payout.Payout) (payout.Step, error) {
		p.Revision++
		return payout.Step{Entry: payout.Entry{Revision: p.Revision, From: p.State, To: p.State, Cause: payout.Consent,
			Actor: "operator:old", Reason: "it was due"}, Consents: true}, nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, err := range atOnce(20, func(int) error { _, err := approve("ann@1"); return err }) {
		if err != nil {
			t.Errorf("ann, time %d: got the error %v, want none", i, err)
		}
	}
	if p, err = c.rows.Get(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(p.State, operators(p.Consents)), "requested[operator:old operator:ann@1]"; got != want {
		t.Errorf("ann alone: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(operators(p.Approvals())), "[operator:ann@1]"; got != want {
		t.Errorf("who counts: got %s, want %s", got, want)
	}
	if p, err = approve("bob@2"); err != nil {
		t.Fatal(err)
	}
	if p.State != payout.Approved {
		t.Errorf("bob too: got %s, want approved", p.State)
	}
}

func operators(list []payout.Approval) (names []string) {
	for _, one := range list {
		names = append(names, one.Operator)
	}
	return names
}

func TestAmountsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, ordinary, chain.Address{7}, 1<<62), provider(t)
	for _, gross := range []money.NanoUSD{-1, 0, 1, payout.Minimum - 1, payout.Minimum + 1, payout.Minimum + 999,
		1_000_000*money.USD + 1_000, 1<<63 - 1, -1 << 63} {
		_, err := c.keepers[0].Request(t.Context(), operationOf(id, "k"), gross, 0)
		if !fault.Is(err, fault.InvalidValue) && !fault.Is(err, fault.BelowMinimum) {
			t.Errorf("$%s: got the error %v, want a refusal", gross, err)
		}
	}
	for _, on := range []chain.ID{1, 254, 31337} {
		_, err := c.keepers[0].Request(t.Context(), operationOf(id, "k"), 10*money.USD, on)
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("chain %s: got the error %v, want %s", on, err, fault.InvalidValue)
		}
	}
	c.has(t, id, 0)
}

// A beneficiary address that changes while payouts are asked for is paid never, and its payouts say so.
func TestABeneficiaryThatChangesIsNotPaidBeforeItsTime(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, ordinary, chain.Address{7}, 100*money.USD), provider(t)
	thief := chain.Address{0xbb}
	hub := &changing{now: payout.Payee{Address: chain.Address{7}}}
	keeper := payout.NewKeeper(payout.Config{Alone: payout.Alone, AloneDaily: ordinary.AloneDaily,
		Assets: map[chain.ID]chain.Asset{chain.Base: {Chain: chain.Base, Kind: chain.USDC, Contract: usdc, Decimals: 6}}},
		payout.Deps{Store: c.rows, Ledger: c.purse, Payees: hub, Screener: anybody{}, Wallet: outlet{}, Sender: outlet{},
			Clock: clock.System, Random: rand.Reader})
	errs := atOnce(40, func(i int) error {
		if i == 20 {
			hub.change(payout.Payee{Address: thief, CoolingUntil: time.Now().Add(payout.Cooling)})
			return nil
		}
		_, err := keeper.Request(t.Context(), operationOf(id, fmt.Sprint(i)), 10*money.USD, 0)
		return err
	})
	if errors.Join(errs...) == nil {
		t.Error("got no refusal, want those of the hour at least")
	}
	list, _, err := c.rows.OfProvider(t.Context(), id, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Address == thief {
			t.Errorf("got a payout to the new address, want none before %v", payout.Cooling)
		}
	}
	if _, err := keeper.Request(t.Context(), operationOf(id, "after"), 10*money.USD, 0); !fault.Is(err,
		fault.BeneficiaryCooling) {
		t.Errorf("after the change: got the error %v, want %s", err, fault.BeneficiaryCooling)
	}
}

// changing is a hub whose payee changes.
type changing struct {
	mu  sync.Mutex
	now payout.Payee
}

func (c *changing) change(to payout.Payee) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = to
}

func (c *changing) Payee(context.Context, ids.ProviderID) (payout.Payee, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, nil
}
