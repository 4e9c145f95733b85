package store_test

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// coins are books into which coins came at a rate of $2.
type coins struct {
	*env
	t      *testing.T
	buyer  consumer
	poster *posting.Poster
}

func newCoins(t *testing.T) *coins {
	t.Helper()
	e := setup(t, unlimited)
	c := &coins{env: e, t: t, buyer: e.consumer(t, 0),
		poster: &posting.Poster{Store: e.store, Clock: clock.System, Random: rand.Reader}}
	c.arrive(3_000_000_000, 2*money.USD)
	return c
}

func rated(rate money.NanoUSD) ledger.Quote {
	return ledger.Quote{Token: ledger.Native, Rate: rate, Source: "feed", At: time.Now().UTC().Truncate(time.Microsecond)}
}

func (c *coins) arrive(units ledger.Units, rate money.NanoUSD) {
	c.t.Helper()
	quote := rated(rate)
	post(c.t, c.env, must(c.t)(ledger.Deposit(newFact(c.t), c.buyer.account,
		ledger.Sum{Token: ledger.Native, Units: units, Quote: &quote})))
}

func (c *coins) spend(units ledger.Units, rate money.NanoUSD) {
	c.t.Helper()
	quote := rated(rate)
	post(c.t, c.env, must(c.t)(ledger.GasSpent(newFact(c.t),
		ledger.Sum{Token: ledger.Native, Units: units, Quote: &quote})))
}

// has is what the books have of the coin.
func (c *coins) has() posting.Holding {
	c.t.Helper()
	list, err := c.store.Holdings(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range list {
		if h.Token == ledger.Native {
			return h
		}
	}
	c.t.Fatal("the books know no coin")
	return posting.Holding{}
}

func (c *coins) revalue(of posting.Holding, rate money.NanoUSD) (ids.EntryID, error) {
	return c.poster.Post(c.t.Context(), posting.Revalued{Day: time.Now().UTC().Truncate(24 * time.Hour),
		Booked: of.Booked, Units: of.Units, Quote: rated(rate)})
}

func TestACoinIsRevaluedToTheDaysRateOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		units        ledger.Units // that are spent at $2
		rate, change money.NanoUSD
	}{
		"up":                {1_000_000_000, 2_500_000_000, money.USD},
		"down":              {1_000_000_000, 1_999_999_999, -2},
		"a half, to even":   {2_500_000_001, 2_000_000_001, 0},
		"more out than in":  {4_000_000_000, 3 * money.USD, -money.USD},
		"none is left":      {3_000_000_000, 5 * money.USD, 0},
		"worth next to nil": {1, 1, 3 - 6*money.USD + 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoins(t)
			c.spend(tc.units, 2*money.USD)
			before := c.has()
			id, err := c.revalue(before, tc.rate)
			if tc.change == 0 {
				if !fault.Is(err, fault.InvalidValue) {
					t.Errorf("nothing changes: got the error %v, want %v", err, fault.InvalidValue)
				}
				if got := c.has(); got.Last != nil {
					t.Errorf("nothing changes: got the revaluation %+v, want none", got.Last)
				}
				c.sound(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			after := c.has()
			if got := after.Booked - before.Booked; got != tc.change {
				t.Errorf("change of value: got %s, want %s", got, tc.change)
			}
			if after.Units != before.Units {
				t.Errorf("units: got %d, want %d as before", after.Units, before.Units)
			}
			if after.Last == nil {
				t.Fatal("the last revaluation: got none")
			}
			last := *after.Last
			last.Day, last.Quote = time.Time{}, ledger.Quote{Rate: last.Quote.Rate}
			want := posting.Revaluation{Revalued: posting.Revalued{Booked: before.Booked, Units: before.Units,
				Quote: ledger.Quote{Rate: tc.rate}}, Worth: after.Booked, Entry: id}
			if last != want {
				t.Errorf("the last revaluation: got %+v, want %+v", last, want)
			}
			// However often it is asked for, and whatever the rate is then.
			again, err := c.revalue(before, 7*money.USD)
			if err != nil {
				t.Fatal(err)
			}
			if again != id {
				t.Errorf("again: got the entry %s, want the first, %s", again, id)
			}
			if got := c.has(); got.Booked != after.Booked {
				t.Errorf("value afterwards: got %s, want %s", got.Booked, after.Booked)
			}
			c.sound(t)
		})
	}
}

// The ledger counts for itself: what came or went since the caller read is a difference.
func TestACoinThatMovedMeanwhileIsNotRevalued(t *testing.T) {
	t.Parallel()
	c := newCoins(t)
	read := c.has()
	c.arrive(1_000_000_000, 4*money.USD)
	if _, err := c.revalue(read, 3*money.USD); !fault.Is(err, fault.CountsDiffer) {
		t.Errorf("after a deposit: got the error %v, want %v", err, fault.CountsDiffer)
	}
	c.spend(1_000_000_000, 4*money.USD) // the units are back, and their value
	if _, err := c.revalue(read, 3*money.USD); err != nil {
		t.Errorf("as it was: %v", err)
	}
	if got, want := c.has().Booked, 9*money.USD; got != want {
		t.Errorf("value: got %s, want %s", got, want)
	}
	c.sound(t)
}

func TestHoldingsCountWhatSealedDaysBrought(t *testing.T) {
	t.Parallel()
	c := newCoins(t)
	c.pushBack(t, 3)
	c.sealDue(t)
	c.arrive(1_000_000_000, 4*money.USD)
	if got, want := c.has().Units, ledger.Units(4_000_000_000); got != want {
		t.Errorf("units: got %d, want %d", got, want)
	}
	if got, want := c.has().Booked, 10*money.USD; got != want {
		t.Errorf("they stand for: got %s, want %s", got, want)
	}
	if _, err := c.revalue(c.has(), money.USD); err != nil {
		t.Fatal(err)
	}
	if got, want := c.has().Booked, 4*money.USD; got != want {
		t.Errorf("value: got %s, want %s", got, want)
	}
}

func TestACoinIsRevaluedOnTheDayItself(t *testing.T) {
	t.Parallel()
	c := newCoins(t)
	has := c.has()
	for name, day := range map[string]time.Time{
		"yesterday": time.Now().UTC().AddDate(0, 0, -1), "tomorrow": time.Now().UTC().AddDate(0, 0, 1),
	} {
		_, err := c.poster.Post(t.Context(), posting.Revalued{Day: day, Booked: has.Booked, Units: has.Units,
			Quote: rated(money.USD)})
		if !fault.Is(err, fault.TransitionNotAllowed) {
			t.Errorf("%s: got the error %v, want %v", name, err, fault.TransitionNotAllowed)
		}
	}
	usdc := rated(money.USD)
	usdc.Token = ledger.USDCBase
	_, err := c.poster.Post(t.Context(), posting.Revalued{Day: time.Now().UTC(), Booked: 5, Quote: usdc})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("USDC: got the error %v, want %v", err, fault.InvalidValue)
	}
}

func TestReplicasThatRevalueAtOncePostOneEntry(t *testing.T) {
	t.Parallel()
	c := newCoins(t)
	has := c.has()
	var all sync.WaitGroup
	posted := make([]ids.EntryID, 8)
	for i, st := range c.replicas(t, len(posted), nil) {
		poster := &posting.Poster{Store: st, Clock: clock.System, Random: rand.Reader}
		all.Go(func() {
			var err error
			posted[i], err = poster.Post(t.Context(), posting.Revalued{Day: time.Now().UTC(), Booked: has.Booked,
				Units: has.Units, Quote: rated(money.NanoUSD(i+3) * money.USD)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range posted {
		if id != posted[0] {
			t.Errorf("got the entries %v, want one", posted)
			break
		}
	}
	c.sound(t)
}

func TestVerifyFindsWhatCoinsAreNotWorth(t *testing.T) {
	t.Parallel()
	const (
		worth  = "a coin is revalued once a day, to what it was worth"
		quoted = "a coin moves with its own quote, and USDC with none"
		state  = "an account is in the state of its last change"
	)
	c := newCoins(t)
	if _, err := c.revalue(c.has(), 3*money.USD); err != nil {
		t.Fatal(err)
	}
	c.sound(t)
	for _, tc := range []struct{ invariant, names, plant, undo string }{
		{worth, "units of", `UPDATE revaluation SET units = units + 1`, `UPDATE revaluation SET units = units - 1`},
		{worth, "units of", `UPDATE revaluation SET booked = booked + 1`, `UPDATE revaluation SET booked = booked - 1`},
		{worth, "posted", `UPDATE revaluation SET day = day - 1, at = at - interval '1 day'`,
			`UPDATE revaluation SET day = day + 1, at = at + interval '1 day'`},
		{worth, "posted", `UPDATE entry SET business_id = 'x' WHERE kind = 'revaluation'`, `UPDATE entry SET business_id =
			(SELECT token || '/' || to_char(day, 'YYYY-MM-DD') FROM revaluation) WHERE kind = 'revaluation'`},
		{worth, "units of", `UPDATE entry SET quote_rate = quote_rate + 1 WHERE kind = 'revaluation'`,
			`UPDATE entry SET quote_rate = quote_rate - 1 WHERE kind = 'revaluation'`},
		{worth, "entry", `UPDATE revaluation SET entry_id = gen_random_uuid()`,
			`UPDATE revaluation SET entry_id = (SELECT id FROM entry WHERE kind = 'revaluation')`},
		{quoted, "its quote is of", `UPDATE entry SET quote_asset = '1:eth' WHERE kind = 'deposit_native'`,
			`UPDATE entry SET quote_asset = '254:native' WHERE kind = 'deposit_native'`},
		{state, "is frozen", `UPDATE account SET state = 'frozen'`, `UPDATE account SET state = 'open'`},
	} {
		c.exec(t, tc.plant)
		c.wantDrift(t, tc.invariant, tc.names)
		c.exec(t, tc.undo)
	}
	c.sound(t)
}
