package hold

import (
	"math"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Account is what decides about the requests of an account that nothing but its credit, its
// rates and its concurrency bounds: neither a plan nor terms, budgets or caps. It decides one
// request after the other, each on what the earlier ones left. It is for one goroutine, which
// must have the account to itself for as long as it decides. It decides as admit_requests.sql
// does, and a test compares the two.
type Account struct {
	ID ids.AccountID
	// Now is the moment of all decisions. Lease is how long their holds last.
	Now   time.Time
	Lease time.Duration
	// Free is the credit that is not held.
	Free money.NanoUSD
	// Open is the number of requests under way with all keys, MaxOpen its bound.
	Open, MaxOpen int64
	Frozen        bool
	Priority      bool
	// ZeroPriced is how far the rate is ahead that all zero-priced models and all keys share.
	ZeroPriced time.Duration
	// LeftOften is how long the account is refused because its clients left too many requests;
	// 0 for not at all.
	LeftOften time.Duration
}

// Key is what decides about the requests of one key beside its account, and what they take.
type Key struct {
	ID ids.KeyID
	// Refusal is the outcome of all requests of a key that has ended; empty for a valid key.
	Refusal Outcome
	// Models are the models that the key may use; all when there are none.
	Models []string
	// Limits are by class, LLM first. Ahead is how far each class's rate is ahead.
	Limits [limit.Classes]int32
	Ahead  [limit.Classes]time.Duration
	// Admitted and Taken are the requests that were admitted since, and their money. Counted are
	// the classes in which they count.
	Admitted int32
	Taken    money.NanoUSD
	Counted  [limit.Classes]bool
}

// meter returns the key's rate in a class.
func (k *Key) meter(a *Account, c limit.Class) limit.Meter {
	m := limit.Meter{PerMinute: k.Limits[c-1], Ahead: k.Ahead[c-1]}
	if c == limit.ZeroPriced {
		m.Ahead = a.ZeroPriced
	}
	return m
}

// Room returns how many requests like r may begin at once by the rates in which it counts. It is
// below zero where a limit was lowered since, and math.MaxInt64 where no rate bounds the request.
func (a *Account) Room(k *Key, r Reservation) int64 {
	room := int64(math.MaxInt64)
	if m := k.meter(a, r.Class); m.Limited() {
		room = m.Room()
	}
	if zero := k.meter(a, limit.ZeroPriced); r.ZeroPriced && zero.Limited() {
		room = min(room, zero.Room())
	}
	return room
}

// Decide decides one request of a key of the account that was never admitted before. An admitted
// request counts in a and k.
func (a *Account) Decide(k *Key, r Reservation) Decision {
	m := k.meter(a, r.Class)
	if zero := k.meter(a, limit.ZeroPriced); r.ZeroPriced && (!m.Limited() || zero.Tighter(m)) {
		m = zero
	}
	d := Decision{Outcome: a.outcome(k, r, m), Admission: Admission{
		Account: a.ID, Billing: r.Billing, Price: r.Price, Rates: r.Rates, Held: r.Amount,
		Rate: limit.Left(m.PerMinute, m.Ahead), ExpiresAt: a.Now.Add(a.Lease), Lease: a.Lease, Priority: a.Priority,
	}}
	switch d.Outcome { //nolint:exhaustive // the other refusals say what the rate has left
	case LeftOften:
		d.Admission.Rate.Retry = a.LeftOften
	case Admitted:
		a.take(k, r)
		if m.Limited() {
			d.Admission.Rate.Remaining = max(d.Admission.Rate.Remaining-1, 0)
			d.Admission.Rate.Reset = m.Take().Ahead
		}
	}
	return d
}

// outcome is how a request is decided for which m is the rate that leaves the least room.
func (a *Account) outcome(k *Key, r Reservation, m limit.Meter) Outcome {
	switch {
	case k.Refusal != "":
		return k.Refusal
	case len(k.Models) > 0 && !slices.Contains(k.Models, r.Model):
		return ModelNotAllowed
	case a.Frozen:
		return AccountFrozen
	case a.LeftOften > 0:
		return LeftOften
	case m.Limited() && m.Room() <= 0:
		return RateLimited
	case a.Open >= a.MaxOpen:
		return TooManyOpen
	case r.Amount > a.Free:
		return CreditShort
	}
	return Admitted
}

// take counts an admitted request.
func (a *Account) take(k *Key, r Reservation) {
	a.Open++
	a.Free -= r.Amount
	k.Admitted++
	k.Taken += r.Amount
	k.Counted[r.Class-1] = true
	k.Ahead[r.Class-1] = k.meter(a, r.Class).Take().Ahead
	if r.ZeroPriced {
		k.Counted[limit.ZeroPriced-1] = true
		a.ZeroPriced = k.meter(a, limit.ZeroPriced).Take().Ahead
	}
}
