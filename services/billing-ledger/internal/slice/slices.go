package slice

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

const (
	// patience bounds the wait of a request for a turn.
	patience = 250 * time.Millisecond
	// enough is how many unwritten holds have a turn at once where somebody waits for some of them. Fewer
	// wait for the next regular turn, so that a quiet moment has no transaction for each request. It is less than
	// MaxPlaces, so that a busy account has places left when its turn begins.
	enough = MaxPlaces / 2
)

// Config of an owner.
type Config struct {
	Owner Owner
	// MaxSlices bounds the slices that are open at a time. Other accounts take the exact path.
	MaxSlices int
	// Batch bounds the slices of one transaction.
	Batch int
	// Timeout bounds one transaction, StopTimeout what is written after the end of Run's context.
	Timeout, StopTimeout time.Duration
}

// DefaultConfig returns the configuration of an owner.
func DefaultConfig(owner Owner) Config {
	return Config{Owner: owner, MaxSlices: 2000, Batch: 500, Timeout: Trust / 2, StopTimeout: 5 * time.Second}
}

// Deps are the parts an owner works with.
type Deps struct {
	Keeper Keeper
	// Writer writes the holds of pins of other owners, and of slices that are closed.
	Writer func(ctx context.Context, pins []hold.Pin) error
	Clock  clock.Clock
	Log    *slog.Logger
	// Observe hears of each transaction; nil for nobody.
	Observe func(Turned)
}

// Turned is one transaction of turns.
type Turned struct {
	Slices, Pins int
	Took         time.Duration
	// Err is why it failed, nil for success. After a failure it may have been committed all the same.
	Err error
}

// Slices is the owner of slices. It is safe for concurrent use. Before Run it admits nothing.
type Slices struct {
	cfg  Config
	deps Deps
	seen *seen
	// unwritten counts the pins that may be unwritten, awaited the calls of Write that wait for some.
	unwritten, awaited atomic.Int64

	// mu guards what follows. Who holds an account's lock may take mu, never the reverse.
	mu       sync.RWMutex
	running  bool
	accounts map[ids.AccountID]*account
	keys     map[ids.KeyID]*account
	// urgent are accounts that need a turn before their next regular one. alarm has a place for one sign
	// that it is time for that.
	urgent map[*account]struct{}
	alarm  chan struct{}
	// begun has a place for one sign that there is a slice again.
	begun chan struct{}
}

// New makes an owner without slices.
func New(cfg Config, deps Deps) *Slices {
	if deps.Observe == nil {
		deps.Observe = func(Turned) {}
	}
	return &Slices{cfg: cfg, deps: deps, seen: newSeen(), accounts: map[ids.AccountID]*account{},
		keys: map[ids.KeyID]*account{}, urgent: map[*account]struct{}{}, alarm: make(chan struct{}, 1),
		begun: make(chan struct{}, 1)}
}

// Open returns the number of accounts that have a slice or are about to.
func (s *Slices) Open() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.accounts)
}

// Waiting returns the number of requests whose holds may be unwritten.
func (s *Slices) Waiting() int { return int(s.unwritten.Load()) }

// Owns reports whether the slice is of this owner.
func (s *Slices) Owns(open hold.SliceOpen) bool { return open.Owner == s.cfg.Owner.ID }

// Admit admits a plain request from the slice of its account. It returns false when it is in doubt: then
// Leave comes before the exact path. It waits for at most patience where a turn under way, or one that
// it asks for, may bring credit or places.
func (s *Slices) Admit(ctx context.Context, r hold.Reservation) (hold.Decision, hold.Pin, bool) {
	a := s.ofKey(r.Key)
	if a == nil || !r.MayBePlain() {
		return hold.Decision{}, hold.Pin{}, false
	}
	d, pin, found, answered := a.admit(&r, s.deps.Clock.Now())
	if found == short {
		return s.admitLater(ctx, a, &r, answered)
	}
	if found == admitted {
		s.count()
	}
	return d, pin, found == admitted
}

// admitLater waits for the turn under way and for one more.
func (s *Slices) admitLater(
	ctx context.Context, a *account, r *hold.Reservation, answered <-chan struct{},
) (hold.Decision, hold.Pin, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for range 2 {
		s.ask(a)
		select {
		case <-answered:
		case <-a.wait:
			return hold.Decision{}, hold.Pin{}, false
		case <-timer.C:
			return hold.Decision{}, hold.Pin{}, false
		case <-ctx.Done():
			return hold.Decision{}, hold.Pin{}, false
		}
		var d hold.Decision
		var pin hold.Pin
		var found verdict
		if d, pin, found, answered = a.admit(r, s.deps.Clock.Now()); found == admitted {
			s.count()
			return d, pin, true
		} else if found == doubtful {
			break
		}
	}
	return hold.Decision{}, hold.Pin{}, false
}

// Saw hears what the exact path decided. An account for which it often admits plain requests gets a
// slice by the next turn.
func (s *Slices) Saw(r hold.Reservation, d hold.Decision) {
	if d.Outcome != hold.Admitted || !r.MayBePlain() || d.Admission.Billing == hold.Plan || d.Admission.Discount != 0 {
		return
	}
	id, now := d.Admission.Account, s.deps.Clock.Now()
	s.mu.RLock()
	full := !s.running || len(s.accounts) >= s.cfg.MaxSlices || s.accounts[id] != nil
	s.mu.RUnlock()
	if full {
		return
	}
	demand, isBusy := s.seen.add(id, r.Amount, now)
	if !isBusy {
		return
	}
	a := newAccount(id, wanted, now)
	a.demand, a.indexed = demand, []ids.KeyID{r.Key}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running && len(s.accounts) < s.cfg.MaxSlices && s.accounts[id] == nil {
		s.addLocked(a)
		s.keys[r.Key] = a
	}
}

// Leave leaves the next decision about a key to the exact path. When the key's account has a slice here,
// everything is written and the slice is closed on return, and none is opened for at least minPause. Where it
// cannot be closed, the slice counts as dead on return.
func (s *Slices) Leave(ctx context.Context, key ids.KeyID) error {
	a := s.ofKey(key)
	if a == nil {
		return nil
	}
	return s.close(ctx, a)
}

// Recall writes everything that was admitted for an account and closes its slice. It returns nil once
// this owner has no slice of the account in the database, or once that slice counts as dead. Callers that
// arrive meanwhile wait for the same end. It is for accounts of which the database says that they have a
// slice here: this owner may not know, after an answer was lost.
func (s *Slices) Recall(ctx context.Context, id ids.AccountID) error {
	s.mu.Lock()
	a := s.accounts[id]
	if a == nil {
		if !s.running {
			s.mu.Unlock()
			return errStopped
		}
		a = newAccount(id, closing, s.deps.Clock.Now())
		s.addLocked(a)
	}
	s.mu.Unlock()
	return s.close(ctx, a)
}

// addLocked adds an account, whose turns begin.
func (s *Slices) addLocked(a *account) {
	s.accounts[a.id] = a
	select {
	case s.begun <- struct{}{}:
	default: // there is a sign already
	}
}

// close closes an account's slice. Where turns fail, it waits for no longer than the slice may keep others
// from deciding: they strand it then.
func (s *Slices) close(ctx context.Context, a *account) error {
	if a.isWanted() {
		return nil
	}
	now := s.deps.Clock.Now()
	r := a.recall()
	switch {
	case r.after == gone:
		s.forget(a)
		return nil
	case r.before != closing:
		s.seen.pause(a.id, r.admitted, now)
	}
	s.ask(a)
	dead := time.NewTimer(r.alive.Sub(now))
	defer dead.Stop()
	select {
	case <-a.wait:
	case <-dead.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of a slice: %w", context.Cause(ctx))
	}
	if !a.isGone() {
		return errStopped
	}
	return nil
}

// Write makes the holds of pins durable. What this owner has not written yet is written by the next
// turn, which all callers share. The Writer writes the others.
func (s *Slices) Write(ctx context.Context, pins []hold.Pin) error { return s.write(ctx, pins, false) }

// WriteNow is Write with a turn at once, for a caller whose client waits.
func (s *Slices) WriteNow(ctx context.Context, pins []hold.Pin) error {
	return s.write(ctx, pins, true)
}

func (s *Slices) write(ctx context.Context, pins []hold.Pin, now bool) error {
	var others []hold.Pin
	needed := map[*account]uint64{}
	for i := range pins {
		s.mu.RLock()
		a := s.accounts[pins[i].Account]
		s.mu.RUnlock()
		n, ok := uint64(0), false
		if a != nil {
			n, ok = a.find(&pins[i])
		}
		if !ok {
			others = append(others, pins[i])
		} else if n > 0 {
			needed[a] = max(needed[a], n)
		}
	}
	for a := range needed {
		s.need(a)
	}
	if len(needed) > 0 {
		s.awaited.Add(1)
		defer s.awaited.Add(-1)
		if now || s.unwritten.Load() >= enough {
			s.ring()
		}
	}
	if len(others) > 0 {
		if err := s.deps.Writer(ctx, others); err != nil {
			return fmt.Errorf("write %d holds from their pins: %w", len(others), err)
		}
	}
	for a, n := range needed {
		if err := a.waitWritten(ctx, n); err != nil {
			return fmt.Errorf("wait for holds to be written: %w", err)
		}
	}
	return nil
}

func (s *Slices) ofKey(key ids.KeyID) *account {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[key]
}

// ask asks for a turn at once.
func (s *Slices) ask(a *account) {
	s.need(a)
	s.ring()
}

// need has the account take part in the next turns that are not regular.
func (s *Slices) need(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urgent[a] = struct{}{}
}

func (s *Slices) ring() {
	select {
	case s.alarm <- struct{}{}:
	default:
	}
}

// count counts a request that was admitted.
func (s *Slices) count() {
	if s.unwritten.Add(1) >= enough && s.awaited.Load() > 0 {
		s.ring()
	}
}

// index has the account found by its keys.
func (s *Slices) index(a *account, keys []ids.KeyID) {
	s.mu.RLock()
	same := slices.Equal(a.indexed, keys)
	s.mu.RUnlock()
	if same {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unindexLocked(a)
	for _, key := range keys {
		s.keys[key] = a
	}
	a.indexed = keys
}

func (s *Slices) unindexLocked(a *account) {
	for _, key := range a.indexed {
		if s.keys[key] == a {
			delete(s.keys, key)
		}
	}
	a.indexed = nil
}

// forget forgets an account that is gone.
func (s *Slices) forget(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unindexLocked(a)
	delete(s.urgent, a)
	if s.accounts[a.id] == a {
		delete(s.accounts, a.id)
	}
}
