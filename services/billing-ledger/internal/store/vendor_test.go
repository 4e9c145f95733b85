package store_test

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// vendorRates are a cent for each token, of which the vendor asks seven tenths, and a tenth for
// what it read from its cache.
var vendorRates = money.Rates{Input: 10_000_000_000, Output: 10_000_000_000, PayoutInput: 7_000_000_000,
	PayoutOutput: 7_000_000_000, PayoutCachedInput: 1_000_000_000}

// gatewayModel is a reservation of a gateway model for ten tokens of prompt and ten of completion.
func (e *env) gatewayModel(t testing.TB, c consumer) hold.Reservation {
	t.Helper()
	reservation := e.reservation(t, c, 10)
	price, err := ids.NewPriceVersion(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	reservation.Model, reservation.Price, reservation.Rates = "openai/x", price, vendorRates
	reservation.PromptTokens, reservation.Amount = 10, 20*cent
	return reservation
}

// servedByVendor is the usage of an admitted gateway model: the prompt with its cached tokens,
// and the completion.
func (e *env) servedByVendor(t testing.TB, r hold.Reservation, prompt, cached, completion int64) usage.Delivery {
	t.Helper()
	d := e.served(t, r, completion)
	d.Event.Billable.Prompt, d.Event.CachedPrompt, d.Event.Vendor = prompt, cached, true
	sum := d.Event.Hash()
	d.Payload = sum[:]
	return d
}

// wantBalance compares an account of one owner.
func (e *env) wantBalance(t testing.TB, kind ledger.AccountKind, owner [16]byte, want money.NanoUSD) {
	t.Helper()
	if got := e.balance(t, kind, owner); got != want {
		t.Errorf("%s: got %s, want %s", kind, got, want)
	}
}

func TestAVendorIsOwedItsPriceAndCachedTokensTheirs(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.gatewayModel(t, c)
	if a := e.admitOne(t, reservation, hold.Admitted); a.Rates != vendorRates {
		t.Errorf("rates that are pinned: got %+v, want %+v", a.Rates, vendorRates)
	}
	if a := e.admitOne(t, reservation, hold.Repeated); a.Rates != vendorRates {
		t.Errorf("rates of the repeat: got %+v, want %+v", a.Rates, vendorRates)
	}
	d := e.servedByVendor(t, reservation, 10, 4, 5)
	e.settle(t, usage.Settled, d)
	e.settle(t, usage.Duplicate, d)
	e.wantWallet(t, c, money.USD-15*cent, 0)
	// 5 and 6 at seven tenths of a cent, and 4 at a tenth.
	owed := (5*7 + 6*7 + 4*1) * cent / 10
	e.wantBalance(t, ledger.VendorPayable, d.Event.Provider, owed)
	e.wantBalance(t, ledger.Accrued, d.Event.Provider, 0)
	e.wantBalance(t, ledger.UsageMargin, [16]byte{}, 15*cent-owed)
	if line := scan[int](t, e, `SELECT DISTINCT line FROM usage_leg`); line != 8 {
		t.Errorf("the line of the table of postings: got %d, want 8", line)
	}
	e.sound(t)
}

// A vendor may say anything of its cache, and an answer that broke off has no billable prompt.
func TestNoMoreIsCachedThanIsBilled(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.gatewayModel(t, c)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.servedByVendor(t, reservation, 10, 1_000_000, 0)
	e.settle(t, usage.Settled, d)
	e.wantBalance(t, ledger.VendorPayable, d.Event.Provider, 10*cent/10)
	e.sound(t)
}

func TestACachedRateThatTheHoldDoesNotPinIsRefused(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.gatewayModel(t, c)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.servedByVendor(t, reservation, 10, 4, 5)
	d.Event.Rates.PayoutCachedInput++
	e.settle(t, usage.PriceMismatch, d)
	e.sound(t)
}

func TestAnAccountsDiscountNeverLowersWhatAVendorIsOwed(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.exec(t, `INSERT INTO account_limits (account_id, requests_per_minute, concurrent_requests, discount, terms_note)
		VALUES ($1, 0, 0, 9000, 'agreed')`, [16]byte(c.account))
	reservation := e.gatewayModel(t, c)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.servedByVendor(t, reservation, 10, 0, 10)
	e.settle(t, usage.Settled, d)
	e.wantWallet(t, c, money.USD-2*cent, 0)
	e.wantBalance(t, ledger.VendorPayable, d.Event.Provider, 14*cent)
	e.wantBalance(t, ledger.Discount, [16]byte{}, -18*cent)
	e.sound(t)
}

// The vendor bills what came after the hold had ended, too. The second request is counted by a
// hub that does not know vendors.
func TestOrphanWorkOfAVendorIsOwedToTheVendor(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	var vendor ids.ProviderID
	for i := range 2 {
		reservation := e.gatewayModel(t, c)
		e.admitOne(t, reservation, hold.Admitted)
		e.release(t, reservation.Request)
		d := e.servedByVendor(t, reservation, 10, 0, 10)
		if i == 1 {
			d.Event.Provider, d.Event.Vendor = vendor, false
		}
		e.settle(t, usage.Orphaned, d)
		vendor = d.Event.Provider
	}
	e.wantBalance(t, ledger.VendorPayable, vendor, 28*cent)
	e.wantBalance(t, ledger.Accrued, vendor, 0)
	e.sound(t)
}

func TestWhatAPlanCoversOfAVendorIsNoPlansToPay(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, money.USD, roomy)
	reservation := e.gatewayModel(t, c)
	reservation.Tier = plan.Standard // as of a catalog from before gateway models had to be premium
	if a := e.admitOne(t, reservation, hold.Admitted); a.Billing != hold.Plan {
		t.Fatalf("billing: got %s, want %s", a.Billing, hold.Plan)
	}
	d := e.servedByVendor(t, reservation, 10, 0, 10)
	e.settle(t, usage.Settled, d)
	e.wantWallet(t, c, money.USD, 0)
	e.wantBalance(t, ledger.VendorPayable, d.Event.Provider, 14*cent)
	e.wantBalance(t, ledger.Shortfall, [16]byte{}, -14*cent)
	e.wantBalance(t, ledger.PlanAccrual, [16]byte{}, 0)
	e.wantBalance(t, ledger.PlanHeld, d.Event.Provider, 0)
	e.sound(t)
}

func TestARefundOfWhatAVendorServedIsGoodwill(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.gatewayModel(t, c)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.servedByVendor(t, reservation, 10, 0, 10)
	e.settle(t, usage.Settled, d)
	_, err := e.store.Refund(t.Context(), entryID(t), reservation.Request, usage.ProviderFault, "")
	if !errors.Is(err, usage.ErrVendorServed) {
		t.Errorf("got the error %v, want %v", err, usage.ErrVendorServed)
	}
	if _, err := e.store.Refund(t.Context(), entryID(t), reservation.Request, usage.Goodwill, ""); err != nil {
		t.Fatal(err)
	}
	e.wantWallet(t, c, money.USD, 0)
	e.wantBalance(t, ledger.VendorPayable, d.Event.Provider, 14*cent)
	e.sound(t)
}

func TestSettlementHearsNothingOfVendors(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.gatewayModel(t, c)
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, usage.Settled, e.servedByVendor(t, reservation, 10, 0, 10))
	_, provider := e.settledFor(t, c)
	accruals, err := e.store.Accruals(t.Context(), earning.AccrualCursor{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(accruals) != 1 {
		t.Fatalf("accruals: got %+v, want one", accruals)
	}
	if accruals[0].Provider != provider {
		t.Errorf("who accrues: got %s, want %s", accruals[0].Provider, provider)
	}
	settled, err := e.store.SettledAfter(t.Context(), earning.SettledCursor{At: time.Now().Add(-time.Hour)}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(settled) != 1 {
		t.Fatalf("settled requests: got %+v, want one", settled)
	}
	if settled[0].Provider != provider {
		t.Errorf("whose request is settled: got %s, want %s", settled[0].Provider, provider)
	}
}

func TestVerifyNamesWhatIsWrongOfAVendor(t *testing.T) {
	for invariant, plant := range map[string]string{
		audit.AmountsRecomputed:                                `UPDATE usage_settlement SET cached_tokens = 3`,
		"who served as a vendor is one, and no vendor accrues": `DELETE FROM vendor`,
	} {
		t.Run(invariant, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			reservation := e.gatewayModel(t, c)
			e.admitOne(t, reservation, hold.Admitted)
			e.settle(t, usage.Settled, e.servedByVendor(t, reservation, 10, 4, 5))
			e.exec(t, plant)
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			if !named(report, invariant, reservation.Request.String()) {
				t.Errorf("drift is not named after %s: %+v", plant, report.Invariants)
			}
		})
	}
}

// The hub died during the vendor's first request, so only the gateway counted the request.
func TestAVendorsFirstRequestIsAVendorsAlthoughNoHubSaysSo(t *testing.T) {
	for name, cached := range map[string]money.PicoUSD{"with a price of cached tokens": vendorRates.PayoutCachedInput,
		"without": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			reservation := e.gatewayModel(t, c)
			reservation.Gateway, reservation.Rates.PayoutCachedInput = true, cached
			e.admitOne(t, reservation, hold.Admitted)
			e.conclude(t, servedWord(reservation.Request, 4))
			e.overdue(t)
			all := e.review(t)
			if len(all) != 1 {
				t.Fatalf("published: got %+v, want one", all)
			}
			e.settle(t, usage.Settled, delivery(all[0]))
			e.wantBalance(t, ledger.VendorPayable, providerID, 4*7*cent/10)
			e.wantBalance(t, ledger.Accrued, providerID, 0)
			e.sound(t)
		})
	}
}
