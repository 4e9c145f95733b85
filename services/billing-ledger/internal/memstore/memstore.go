// Package memstore has the ledger's tables in memory, for simulations. It does what
// package store does in PostgreSQL, one call after the other, by a clock that it is
// given. A test compares it with package store on the same random operations.
//
// It has accounts that pay as they go from granted credit, and their slices. Of their keys it
// knows only the bound on open holds of the account: rates, plans and the states of keys are not
// here. It refuses a batch that the database's CHECKs would refuse (usage.ErrRefused),
// which changes nothing. It is not safe for concurrent use.
package memstore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Terms are the times of holds; see store.Terms.
type Terms struct{ Lease, Orphan, MaxHold time.Duration }

// Faults are the faults that a test may plant, to prove that it notices them.
type Faults struct {
	// NoPrimaryKey settles a request again each time that its usage arrives.
	NoPrimaryKey bool
	// PinWithoutSlice writes the hold of a pin and takes nothing from its slice.
	PinWithoutSlice bool
}

// Store has the tables.
type Store struct {
	// Now is the database's clock.
	Now func() time.Time
	// Concurrent bounds the open holds of an account.
	Concurrent int
	Terms      Terms
	// SliceTerms are those of package store, but for what a test changes.
	SliceTerms SliceTerms
	Faults     Faults

	wallets   map[ids.AccountID]*Wallet
	keys      map[ids.KeyID]*key
	holds     map[ids.RequestID]*Hold
	order     []*Hold // in the order of admission
	reports   map[ids.RequestID]report
	renewals  map[ids.RequestID]renewal
	reviews   map[ids.RequestID]*review
	lines     map[ids.RequestID]int // place in settled
	settled   []usage.Line
	settledAt []time.Time // the time of each line in settled
	orphans   money.NanoUSD
	entries   []entry
	rejects   map[rejectKey]usage.Reject
	related   map[usage.Pair]usage.Rule
	slices    []*sliceRow // in the order of their epochs
	epochs    int64       // the last one
}

// Wallet is the credit of an account.
type Wallet struct {
	Posted, Held money.NanoUSD
	// Granted is the sum of all grants.
	Granted money.NanoUSD
}

type key struct {
	account ids.AccountID
	open    int
}

// Hold is a row of the table hold.
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

// entry is an entry of the ledger, with the time of its posting.
type entry struct {
	ledger.Entry
	at time.Time
}

type rejectKey struct {
	sum    [sha256.Size]byte
	reason usage.Result
}

// SliceTerms are the bounds of slices.
type SliceTerms struct {
	// Share is which part of what is available a slice may have: 20 for a twentieth. It gets nothing while
	// less than Least is available.
	Share int64
	Least money.NanoUSD
	// Lease is how long an owner counts as alive after a turn, and ReclaimAfter how long a stranded slice
	// keeps what it has.
	Lease, ReclaimAfter time.Duration
}

// sliceRow is a row of the table slice.
type sliceRow struct {
	account    ids.AccountID
	epoch      int64
	owner      slice.Owner
	amount     money.NanoUSD
	places     int64
	aliveUntil time.Time
	// reclaimAt is zero while the slice is open.
	reclaimAt time.Time
}

// isOpen reports whether the slice is not stranded.
func (c *sliceRow) isOpen() bool { return c.reclaimAt.IsZero() }

// openSlice returns the open slice of an account; nil for none.
func (s *Store) openSlice(account ids.AccountID) *sliceRow {
	for _, c := range s.slices {
		if c.account == account && c.isOpen() {
			return c
		}
	}
	return nil
}

// hasSlice reports whether an account has a slice, open or stranded.
func (s *Store) hasSlice(account ids.AccountID) bool {
	return slices.ContainsFunc(s.slices, func(c *sliceRow) bool { return c.account == account })
}

// strandedPlaces are the places of stranded slices of an account, which count as requests under way.
func (s *Store) strandedPlaces(account ids.AccountID) (n int64) {
	for _, c := range s.slices {
		if c.account == account && !c.isOpen() {
			n += c.places
		}
	}
	return n
}

func (s *Store) strand(c *sliceRow) { c.reclaimAt = s.now().Add(s.SliceTerms.ReclaimAfter) }

// New makes an empty store.
func New(now func() time.Time, concurrent int, terms Terms) *Store {
	return &Store{
		Now: now, Concurrent: concurrent, Terms: terms,
		SliceTerms: SliceTerms{Share: 20, Least: money.USD, Lease: slice.Lease, ReclaimAfter: terms.Lease + time.Minute},
		wallets:    map[ids.AccountID]*Wallet{}, keys: map[ids.KeyID]*key{}, holds: map[ids.RequestID]*Hold{},
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

// grant posts granted credit. PostgreSQL has no entry of nothing, and neither has this.
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

// Own gives an account and a provider the same owner.
func (s *Store) Own(account ids.AccountID, provider ids.ProviderID) {
	s.related[usage.Pair{Account: account, Provider: provider}] = usage.SameUser
}

// Account returns the account of a key.
func (s *Store) Account(k ids.KeyID) (ids.AccountID, bool) {
	if known := s.keys[k]; known != nil {
		return known.account, true
	}
	return ids.AccountID{}, false
}

// Wallet returns the credit of an account.
func (s *Store) Wallet(account ids.AccountID) Wallet { return *s.wallets[account] }

// Holds returns all holds, in the order of their admission.
func (s *Store) Holds() []*Hold { return s.order }

// Lines returns the settled requests, in their order.
func (s *Store) Lines() []usage.Line { return s.settled }

// OrphanWork returns what the platform paid for requests without an open hold.
func (s *Store) OrphanWork() money.NanoUSD { return s.orphans }

// OpenOf counts the open holds of a key, as admission does.
func (s *Store) OpenOf(k ids.KeyID) int { return s.keys[k].open }

// Quarantined returns the quarantined events.
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

// NextDue returns when something is next due by the clock: the end of an open hold's
// lease, a publication, or the end of a slice. It returns false for never.
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
	for _, c := range s.slices {
		if c.isOpen() {
			earlier(c.aliveUntil)
		} else {
			earlier(c.reclaimAt)
		}
	}
	return next, ok
}

// now is to the microsecond, the precision of PostgreSQL.
func (s *Store) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// giveBack ends a hold without a charge. Its place in the concurrency is free already if
// a gateway has reported its end.
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
