// Package memstore is the ledger's tables in memory, for simulations. It does
// what package store does in PostgreSQL, one call after the other, by a clock
// that it is given; a test holds it against that package with the same random
// operations.
//
// It knows accounts that are paid for as they go, from credit that was granted,
// and their keys by the bound of their account
// on open holds alone: requests per minute, plans and the state of keys are not
// here. A batch that the database's CHECKs would refuse is refused
// (usage.ErrRefused) and changes nothing. It is not safe for concurrent use.
package memstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Terms are the times of holds; see store.Terms.
type Terms struct{ Lease, Orphan, MaxHold time.Duration }

// Faults are what a test may break, to see that it is noticed.
type Faults struct {
	// NoPrimaryKey settles a request anew each time that its usage comes.
	NoPrimaryKey bool
}

// Store is the tables.
type Store struct {
	// Now is the database's clock.
	Now func() time.Time
	// Concurrent bounds the open holds of an account.
	Concurrent int
	Terms      Terms
	Faults     Faults

	wallets   map[ids.AccountID]*Wallet
	keys      map[ids.KeyID]*key
	holds     map[ids.RequestID]*Hold
	order     []*Hold // as admitted
	reports   map[ids.RequestID]report
	renewals  map[ids.RequestID]renewal
	reviews   map[ids.RequestID]*review
	lines     map[ids.RequestID]int // place in settled
	settled   []usage.Line
	settledAt []time.Time // of each in settled
	orphans   money.NanoUSD
	entries   []entry
	rejects   map[rejectKey]usage.Reject
	related   map[usage.Pair]usage.Rule
}

// Wallet is an account's money.
type Wallet struct {
	Posted, Held money.NanoUSD
	// Granted is all that ever came in.
	Granted money.NanoUSD
}

type key struct {
	account ids.AccountID
	open    int
}

// Hold is a row of the table of that name.
type Hold struct {
	hold.Reservation
	Account             ids.AccountID
	State               hold.State
	AdmittedAt, Expires time.Time
	ClosedAt            time.Time // zero while it is open
}

type report struct {
	hold.RequestReport
	hub      string
	provider ids.ProviderID
	at       time.Time
}

type renewal struct {
	hold.Renewal
	at time.Time
}

type review struct {
	publications int
	next         time.Time // zero for never
}

// entry is an entry of the ledger, and when it was posted.
type entry struct {
	ledger.Entry
	at time.Time
}

type rejectKey struct {
	sum    [sha256.Size]byte
	reason usage.Result
}

// New makes an empty store.
func New(now func() time.Time, concurrent int, terms Terms) *Store {
	return &Store{
		Now: now, Concurrent: concurrent, Terms: terms,
		wallets: map[ids.AccountID]*Wallet{}, keys: map[ids.KeyID]*key{}, holds: map[ids.RequestID]*Hold{},
		reports: map[ids.RequestID]report{}, renewals: map[ids.RequestID]renewal{}, reviews: map[ids.RequestID]*review{},
		lines: map[ids.RequestID]int{}, rejects: map[rejectKey]usage.Reject{},
		related: map[usage.Pair]usage.Rule{},
	}
}

// Open adds an account with credit and a key.
func (s *Store) Open(account ids.AccountID, k ids.KeyID, credit money.NanoUSD) {
	s.wallets[account] = &Wallet{Posted: credit, Granted: credit}
	s.keys[k] = &key{account: account}
	s.grant(account, credit)
}

// Grant adds credit.
func (s *Store) Grant(account ids.AccountID, credit money.NanoUSD) {
	w := s.wallets[account]
	w.Posted += credit
	w.Granted += credit
	s.grant(account, credit)
}

// grant posts credit that an account is given. PostgreSQL has no entry of
// nothing.
func (s *Store) grant(account ids.AccountID, credit money.NanoUSD) {
	if credit == 0 {
		return
	}
	n := len(s.entries) + 1
	var id ids.EntryID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	business := fmt.Sprintf("%s/%d", account, n)
	s.entries = append(s.entries, entry{ledger.Grant(id, account, credit, business, ""), s.now()})
}

// Own makes the owner of an account that of a provider.
func (s *Store) Own(account ids.AccountID, provider ids.ProviderID) {
	s.related[usage.Pair{Account: account, Provider: provider}] = usage.SameUser
}

// Account is the account of a key.
func (s *Store) Account(k ids.KeyID) (ids.AccountID, bool) {
	if known := s.keys[k]; known != nil {
		return known.account, true
	}
	return ids.AccountID{}, false
}

// Wallet is what an account has.
func (s *Store) Wallet(account ids.AccountID) Wallet { return *s.wallets[account] }

// Holds are all holds, in the order of their admission.
func (s *Store) Holds() []*Hold { return s.order }

// Lines are the settled requests, in their order.
func (s *Store) Lines() []usage.Line { return s.settled }

// OrphanWork is what the platform paid for requests without a hold.
func (s *Store) OrphanWork() money.NanoUSD { return s.orphans }

// OpenOf counts the open holds of a key, as admission does.
func (s *Store) OpenOf(k ids.KeyID) int { return s.keys[k].open }

// Quarantined are the events put aside.
func (s *Store) Quarantined() []usage.Reject {
	all := make([]usage.Reject, 0, len(s.rejects))
	for _, r := range s.rejects {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b usage.Reject) int {
		return cmp.Or(bytes.Compare(a.Request[:], b.Request[:]), cmp.Compare(a.Reason, b.Reason),
			bytes.Compare(a.Payload, b.Payload))
	})
	return all
}

// NextDue is when something next becomes due by the clock: the time of an open
// hold or a publication; false for never.
func (s *Store) NextDue() (next time.Time, ok bool) {
	earlier := func(at time.Time) {
		if !at.IsZero() && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	for _, h := range s.order {
		if h.State == hold.Open {
			earlier(h.Expires)
		}
	}
	for r, v := range s.reviews {
		if s.holds[r].State != hold.Open {
			earlier(v.next)
		}
	}
	return next, ok
}

// now is to the microsecond, which is what PostgreSQL keeps.
func (s *Store) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// giveBack ends a hold without a charge. Its place in the concurrency of its key
// is free already if a gateway has told of its end.
func (s *Store) giveBack(h *Hold, why hold.Trigger) {
	to, ok := h.State.After(why)
	if !ok {
		return
	}
	h.State, h.ClosedAt = to, s.now()
	s.wallets[h.Account].Held -= h.Amount
	if _, told := s.reports[h.Request]; !told {
		s.keys[h.Key].open--
	}
}

// Admit decides reservations; see hold.Decider.
func (s *Store) Admit(_ context.Context, reservations []hold.Reservation) ([]hold.Decision, error) {
	decisions := make([]hold.Decision, len(reservations))
	for _, i := range s.lockOrder(reservations) {
		decisions[i] = s.admit(reservations[i])
	}
	return decisions, nil
}

// lockOrder is the order in which the database decides a batch.
func (s *Store) lockOrder(reservations []hold.Reservation) []int {
	places := make([]int, len(reservations))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		x, y := reservations[a], reservations[b]
		ax, _ := s.Account(x.Key)
		ay, _ := s.Account(y.Key)
		return cmp.Or(bytes.Compare(ax[:], ay[:]), bytes.Compare(x.Key[:], y.Key[:]),
			bytes.Compare(x.Request[:], y.Request[:]))
	})
	return places
}

func (s *Store) admit(c hold.Reservation) hold.Decision {
	k := s.keys[c.Key]
	if k == nil {
		return hold.Decision{Outcome: hold.InvalidKey}
	}
	if h := s.holds[c.Request]; h != nil {
		v := hold.Decision{Outcome: hold.Repeated, Admission: h.admission()}
		if h.Key != c.Key || h.Model != c.Model {
			v.Outcome = hold.Reused
		}
		return v
	}
	w := s.wallets[k.account]
	switch {
	case s.open(k.account) >= s.Concurrent:
		return hold.Decision{Outcome: hold.TooManyOpen}
	case c.Amount > w.Posted-w.Held:
		return hold.Decision{Outcome: hold.CreditShort}
	}
	now := s.now()
	h := &Hold{Reservation: c, Account: k.account, State: hold.Open, AdmittedAt: now, Expires: now.Add(s.Terms.Lease)}
	s.holds[c.Request] = h
	s.order = append(s.order, h)
	w.Held += c.Amount
	k.open++
	return hold.Decision{Outcome: hold.Admitted, Admission: h.admission()}
}

// open counts the open holds of all keys of an account.
func (s *Store) open(account ids.AccountID) int {
	n := 0
	for _, k := range s.keys {
		if k.account == account {
			n += k.open
		}
	}
	return n
}

func (h *Hold) admission() hold.Admission {
	return hold.Admission{
		Account: h.Account, Billing: h.Billing, Price: h.Price, Rates: h.Rates, Held: h.Amount, ExpiresAt: h.Expires,
	}
}
