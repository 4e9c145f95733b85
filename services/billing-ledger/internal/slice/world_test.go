package slice

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// world is a small model of the store: wallets, keys with rates, holds and slices. Its transactions take
// time before and after their one moment, and their now() is that of their beginning, as in PostgreSQL.
// It checks its own sums after each of them.
type world struct {
	mu      sync.Mutex
	random  *rand.Rand
	clock   clock.Clock
	wallets map[ids.AccountID]*wallet
	ofKey   map[ids.KeyID]*wallet
	holds   map[ids.RequestID]*heldRow
	open    map[ids.RequestID]*heldRow
	slices  map[int64]*sliceRow
	epochs  int64
	// latency is how long each half of a transaction takes at most.
	latency time.Duration
	// broken is the first thing that was found wrong.
	broken error

	// The faults of a store, each of which the simulation must find.
	forgetsGuard, forgetsRates, forgetsStrandedRates, keepsAmount, grantsUnheld, forgetsPlaces, forgetsChanges bool
	// lease is how long an owner counts as alive.
	lease time.Duration
}

type wallet struct {
	id           ids.AccountID
	posted, held money.NanoUSD
	inflight     int64
	maxOpen      int64
	plain        bool
	frozen       bool
	keys         map[ids.KeyID]*keyRow
	zeroFull     time.Time
}

type keyRow struct {
	id      ids.KeyID
	revoked bool
	until   time.Time
	limits  [limit.Classes]int32
	full    [limit.Classes]time.Time
}

type heldRow struct {
	pin    hold.Pin
	amount money.NanoUSD
	open   bool
}

type sliceRow struct {
	account    ids.AccountID
	owner      Owner
	amount     money.NanoUSD
	places     int64
	aliveUntil time.Time
	stranded   bool
	reclaimAt  time.Time
}

const (
	modelLease   = time.Minute
	modelReclaim = 90 * time.Second
)

func newWorld(random *rand.Rand) *world {
	return &world{random: random, clock: clock.System, latency: 4 * time.Millisecond, lease: Lease,
		wallets: map[ids.AccountID]*wallet{}, ofKey: map[ids.KeyID]*wallet{}, holds: map[ids.RequestID]*heldRow{},
		open: map[ids.RequestID]*heldRow{}, slices: map[int64]*sliceRow{}}
}

// addWallet adds an account with keys whose rates are perMinute in all classes.
func (w *world) addWallet(n byte, posted money.NanoUSD, maxOpen int64, perMinute int32, keys int) *wallet {
	one := &wallet{id: ids.AccountID{15: n}, posted: posted, maxOpen: maxOpen, plain: true, keys: map[ids.KeyID]*keyRow{}}
	w.wallets[one.id] = one
	for range keys {
		w.addKey(one, perMinute)
	}
	return one
}

func (w *world) addKey(one *wallet, perMinute int32) ids.KeyID {
	k := &keyRow{id: ids.KeyID{14: one.id[15], 15: byte(len(one.keys) + 1)}}
	for i := range k.limits {
		k.limits[i] = perMinute
	}
	one.keys[k.id] = k
	w.ofKey[k.id] = one
	return k.id
}

// begin waits as long as the first half of a transaction takes, and returns the moment of its beginning.
func (w *world) begin(ctx context.Context) (now time.Time, err error) {
	now = w.clock.Now().Truncate(time.Microsecond)
	return now, w.pause(ctx)
}

func (w *world) pause(ctx context.Context) error {
	w.mu.Lock()
	d := time.Duration(w.random.Int64N(int64(w.latency) + 1))
	w.mu.Unlock()
	return clock.Sleep(ctx, d)
}

// transact runs a transaction.
func (w *world) transact(ctx context.Context, do func(now time.Time) error) error {
	now, err := w.begin(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	err = do(now)
	w.checkLocked()
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.pause(ctx)
}

func (w *world) breakLocked(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

// checkLocked checks the sums.
func (w *world) checkLocked() {
	held := map[ids.AccountID]money.NanoUSD{}
	for _, h := range w.open {
		held[h.pin.Account] += h.amount
	}
	opens := map[ids.AccountID]int{}
	for epoch, s := range w.slices {
		held[s.account] += s.amount
		if s.amount < 0 || s.places < 0 || s.places > MaxPlaces {
			w.breakLocked("slice %d has the amount %d and %d places", epoch, s.amount, s.places)
		}
		if !s.stranded {
			opens[s.account]++
		}
	}
	for id, one := range w.wallets {
		if one.held != held[id] {
			w.breakLocked("account %s: held is %d, its holds and slices are %d", id, one.held, held[id])
		}
		if one.held > one.posted || one.held < 0 {
			w.breakLocked("account %s: held is %d of %d", id, one.held, one.posted)
		}
		if opens[id] > 1 {
			w.breakLocked("account %s has %d open slices", id, opens[id])
		}
	}
}

// openSliceLocked returns the open slice of an account. It strands the slice of a dead owner.
func (w *world) openSliceLocked(one *wallet, now time.Time) (int64, *sliceRow) {
	for epoch, s := range w.slices {
		if s.account != one.id || s.stranded {
			continue
		}
		if s.aliveUntil.After(now) {
			return epoch, s
		}
		s.stranded, s.reclaimAt = true, now.Add(modelReclaim)
		if w.forgetsStrandedRates {
			return 0, nil
		}
		full := now.Add(time.Minute)
		one.zeroFull = later(one.zeroFull, full)
		for _, k := range one.keys {
			for i := range k.full {
				k.full[i] = later(k.full[i], full)
			}
		}
	}
	return 0, nil
}

// stateLocked returns what decides about an account's requests.
func (w *world) stateLocked(one *wallet, now time.Time) (hold.Account, []Key) {
	a := hold.Account{ID: one.id, Now: now, Lease: modelLease, Free: one.posted - one.held, Open: one.inflight,
		MaxOpen: one.maxOpen, Frozen: one.frozen, ZeroPriced: max(one.zeroFull.Sub(now), 0)}
	for _, s := range w.slices {
		if s.account == one.id && s.stranded && !w.forgetsPlaces {
			a.Open += s.places
		}
	}
	var keys []Key
	for _, row := range one.keys {
		k := Key{Key: hold.Key{ID: row.id, Limits: row.limits}, Until: row.until}
		switch {
		case row.revoked:
			k.Refusal = hold.KeyRevoked
		case !row.until.IsZero() && !row.until.After(now):
			k.Refusal = hold.KeyExpired
		}
		for i, full := range row.full {
			k.Ahead[i] = max(full.Sub(now), 0)
		}
		keys = append(keys, k)
	}
	return a, keys
}

// writePinLocked writes the hold of a pin unless it is written.
func (w *world) writePinLocked(p hold.Pin) {
	if w.holds[p.Request] != nil {
		return
	}
	amount := p.Amount
	s := w.slices[p.Epoch]
	switch {
	case s == nil || s.account != p.Account || s.amount < amount:
		w.breakLocked("the pin of request %s found no credit in its slice %d: %+v", p.Request, p.Epoch, s)
		amount = 0
	case !w.keepsAmount:
		s.amount -= amount
	}
	if s != nil {
		s.places = max(s.places-1, 0)
	}
	w.addHoldLocked(p, amount)
}

func (w *world) addHoldLocked(p hold.Pin, amount money.NanoUSD) {
	h := &heldRow{pin: p, amount: amount, open: true}
	w.holds[p.Request], w.open[p.Request] = h, h
	w.wallets[p.Account].inflight++
}

// Turn is Keeper's.
func (w *world) Turn(ctx context.Context, owner Owner, turns []Turn) (states []State, err error) {
	err = w.transact(ctx, func(now time.Time) error {
		for _, t := range turns {
			states = append(states, w.turnLocked(owner, t, now))
		}
		return nil
	})
	return states, err
}

func (w *world) turnLocked(owner Owner, t Turn, now time.Time) State {
	one := w.wallets[t.Account]
	if t.Now.After(w.clock.Now()) {
		w.breakLocked("an owner's time is %v ahead", t.Now.Sub(w.clock.Now()))
	}
	for _, p := range t.Pins {
		w.writePinLocked(p)
	}
	for id, ahead := range t.Ahead {
		for i, d := range ahead {
			if k := one.keys[id]; k != nil && !w.forgetsRates {
				k.full[i] = later(k.full[i], t.Now.Add(d))
			}
		}
	}
	one.zeroFull = later(one.zeroFull, t.Now.Add(t.ZeroPriced))
	epoch, s := t.Epoch, w.slices[t.Epoch]
	if t.Epoch == 0 {
		epoch, s = w.openSliceLocked(one, now)
		if s == nil && !t.Close && one.plain && !one.frozen {
			w.epochs++
			epoch, s = w.epochs, &sliceRow{account: one.id, owner: owner}
			w.slices[epoch] = s
		}
	}
	if s == nil || s.stranded || s.owner != owner {
		return State{Plain: one.plain}
	}
	if t.Close {
		one.held -= s.amount
		delete(w.slices, epoch)
		return State{Plain: one.plain}
	}
	before := s.amount
	s.amount += min(max(t.Want-s.amount, 0), max(one.posted-one.held, 0)/5)
	if !w.grantsUnheld {
		one.held += s.amount - before
	}
	a, keys := w.stateLocked(one, now)
	s.places = max(s.places, min(t.Places, MaxPlaces, (one.maxOpen-a.Open)/2))
	s.aliveUntil = now.Add(w.lease)
	return State{Epoch: epoch, Plain: one.plain, Amount: s.amount, Places: s.places, Account: a, Keys: keys}
}

// WritePins is Deps.Writer's.
func (w *world) WritePins(ctx context.Context, pins []hold.Pin) error {
	return w.transact(ctx, func(time.Time) error {
		for _, p := range pins {
			w.writePinLocked(p)
		}
		return nil
	})
}

// Admit is hold.Decider's: the exact path.
func (w *world) Admit(ctx context.Context, reservations []hold.Reservation) (decisions []hold.Decision, err error) {
	err = w.transact(ctx, func(now time.Time) error {
		for _, r := range reservations {
			one := w.ofKey[r.Key]
			if _, s := w.openSliceLocked(one, now); s != nil && !w.forgetsGuard {
				return hold.SliceOpen{Account: one.id, Owner: s.owner.ID, Address: s.owner.Address}
			}
		}
		for _, r := range reservations {
			decisions = append(decisions, w.decideLocked(r, now))
		}
		return nil
	})
	return decisions, err
}

func (w *world) decideLocked(r hold.Reservation, now time.Time) hold.Decision {
	one := w.ofKey[r.Key]
	if h := w.holds[r.Request]; h != nil {
		return hold.Decision{Outcome: hold.Repeated, Admission: hold.Admission{Account: one.id, Held: h.amount}}
	}
	a, keys := w.stateLocked(one, now)
	for i := range keys {
		k := &keys[i]
		if k.ID != r.Key {
			continue
		}
		d := a.Decide(&k.Key, r)
		if d.Outcome == hold.Admitted {
			row := one.keys[k.ID]
			for c, ahead := range k.Ahead {
				row.full[c] = now.Add(ahead)
			}
			one.zeroFull = now.Add(a.ZeroPriced)
			one.held += r.Amount
			w.addHoldLocked(r.Pin(d.Admission, now, 0), r.Amount)
		}
		return d
	}
	return hold.Decision{Outcome: hold.InvalidKey}
}

// errUnknown is the error of a report about a request without a hold.
var errUnknown = errors.New("the request has no hold")

// Settle closes the hold of a request, which costs at most its amount.
func (w *world) Settle(ctx context.Context, request ids.RequestID, cost money.NanoUSD) error {
	return w.transact(ctx, func(time.Time) error {
		h := w.holds[request]
		if h == nil {
			return errUnknown
		}
		if !h.open {
			return nil
		}
		one := w.wallets[h.pin.Account]
		h.open = false
		delete(w.open, request)
		one.inflight--
		one.held -= h.amount
		one.posted -= min(cost, h.amount)
		return nil
	})
}

// Change runs a change of an account, which an open slice of a live owner refuses.
func (w *world) Change(ctx context.Context, id ids.AccountID, do func(one *wallet)) error {
	return w.transact(ctx, func(now time.Time) error {
		one := w.wallets[id]
		if _, s := w.openSliceLocked(one, now); s != nil && !w.forgetsChanges {
			return hold.SliceOpen{Account: id, Owner: s.owner.ID, Address: s.owner.Address}
		}
		do(one)
		return nil
	})
}

// Reclaim gives the credit of stranded slices back whose time is over.
func (w *world) Reclaim(ctx context.Context) error {
	return w.transact(ctx, func(now time.Time) error {
		for epoch, s := range w.slices {
			if s.stranded && !s.reclaimAt.After(now) {
				w.wallets[s.account].held -= s.amount
				delete(w.slices, epoch)
			}
		}
		return nil
	})
}
