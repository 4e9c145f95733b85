package slice

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

const (
	// margin is the number of requests, beside the one that is decided, for which each rate must have more
	// than room: a refusal is the exact path's, and what the last turn read of a rate is not of this moment.
	margin = 1
	// idleAfter is how long a slice stays open without an admission.
	idleAfter = 2 * time.Second
	// heartbeat is the longest time between two turns of an open slice.
	heartbeat = time.Second
	// lateFor is how long after its beginning a turn may be committed whose answer was lost: the owner leaves
	// it after Config.Timeout, and the database ends a statement of it that takes more than 2 s.
	lateFor = 5 * time.Second
)

// account is one life of an account's slice, from the wish for one to its end.
type account struct {
	id ids.AccountID
	// wait is closed when the account is gone or the owner has stopped.
	wait chan struct{}
	// failing counts the turns that failed since the last that succeeded. Only the runner uses it.
	failing int
	// again is from when on a turn is tried after one that failed alone. Only the runner uses it.
	again time.Time

	mu    sync.Mutex
	phase phase
	epoch int64
	// decider decides with what is left of the slice as the account's free credit, and with the
	// requests that are not written yet as open ones.
	decider hold.Account
	keys    map[ids.KeyID]*key
	// indexed are the keys by which Slices finds the account.
	indexed []ids.KeyID
	// places is how many more requests may be admitted before the next turn.
	places int64
	// anchor is the database's time in the last answer, which arrived at anchored by the owner's clock. The
	// database's clock showed anchor at most lag before that.
	anchor, anchored time.Time
	lag              time.Duration
	// trusted is until when the owner may admit, by its own clock, and alive until when the slice may keep
	// others from deciding.
	trusted, alive time.Time
	recent         recent

	// pins are the requests that may be unwritten, oldest first. The first flying of them are in the
	// turn under way. written counts those that left the list, because they are written.
	pins    []hold.Pin
	spare   []hold.Pin
	flying  int
	written uint64
	// moved are the keys whose rates the turn under way writes.
	moved []*key

	demand demand
	// asked are the places that the last turn asked for. crowded reports whether they did not suffice
	// since, and short is the largest amount that found too little credit.
	asked   int64
	crowded bool
	short   money.NanoUSD

	admitted, turned time.Time
	// answered is closed at the next answer to a turn; nil while nobody waits.
	answered chan struct{}
	// failures counts failed turns, and failure is the error of the last. Until lateUntil one of them may
	// be committed late.
	failures  uint64
	failure   error
	lateUntil time.Time
}

// key is a key of the account with its rates at the moment at.
type key struct {
	hold.Key
	until, at time.Time
	// moved reports whether its rates moved since the last turn that may have written them.
	moved bool
}

// verdict is what the owner finds about a request.
type verdict int

const (
	// doubtful: the exact path decides.
	doubtful verdict = iota
	admitted
	// short: the next answer to a turn may leave enough credit, places or concurrency.
	short
)

func newAccount(id ids.AccountID, at phase, now time.Time) *account {
	return &account{id: id, wait: make(chan struct{}), phase: at, keys: map[ids.KeyID]*key{},
		demand: demand{at: now}, admitted: now, alive: now.Add(lateFor + Lease)}
}

// moveLocked moves the account on. It is a mistake of the program when the event cannot come.
func (a *account) moveLocked(e event) {
	to, ok := a.phase.after(e)
	if !ok {
		panic("slice: " + string(e) + " cannot come while a slice is " + string(a.phase))
	}
	if to == gone && a.phase != gone {
		close(a.wait)
	}
	a.phase = to
}

// advanceLocked moves the decider's moment on to the database's time as the owner reckons it. It
// never goes back, so that no rate forgets a request.
func (a *account) advanceLocked(now time.Time) {
	if a.anchored.IsZero() {
		return // no turn told the time yet
	}
	t := a.anchor.Add(now.Sub(a.anchored)).Truncate(time.Microsecond)
	passed := t.Sub(a.decider.Now)
	if passed <= 0 {
		return
	}
	a.decider.Now = t
	a.decider.ZeroPriced = max(a.decider.ZeroPriced-passed, 0)
	a.decider.LeftOften = max(a.decider.LeftOften-passed, 0)
}

// advance moves the moment of the key's rates on.
func (k *key) advance(to time.Time) {
	passed := to.Sub(k.at)
	if passed <= 0 {
		return
	}
	k.at = to
	for i := range k.Ahead {
		k.Ahead[i] = max(k.Ahead[i]-passed, 0)
	}
}

// admit admits a request or changes nothing but what the next turn asks for. While the verdict is short,
// the next answer closes the channel.
func (a *account) admit(r *hold.Reservation, now time.Time) (hold.Decision, hold.Pin, verdict, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase == opening {
		return hold.Decision{}, hold.Pin{}, short, a.answerLocked()
	}
	if a.phase != open || !now.Before(a.trusted) {
		return hold.Decision{}, hold.Pin{}, doubtful, nil
	}
	a.advanceLocked(now)
	k := a.keys[r.Key]
	if !a.surelyLocked(k, r, now) {
		return hold.Decision{}, hold.Pin{}, doubtful, nil
	}
	if a.shortLocked(r) {
		return hold.Decision{}, hold.Pin{}, short, a.answerLocked()
	}
	d := a.decider.Decide(&k.Key, *r)
	if d.Outcome != hold.Admitted {
		return hold.Decision{}, hold.Pin{}, doubtful, nil
	}
	a.places--
	k.moved = true
	a.recent.add(r.Request)
	a.demand.add(r.Amount)
	a.admitted = now
	a.pins = append(a.pins, r.Pin(d.Admission, a.decider.Now, a.epoch))
	return d, a.pins[len(a.pins)-1], admitted, nil
}

// surelyLocked reports whether nothing but the credit, the places and what Decide refuses puts the
// request in doubt.
func (a *account) surelyLocked(k *key, r *hold.Reservation, now time.Time) bool {
	if k == nil || k.Refusal != "" || r.Class < 1 || r.Class > limit.Classes {
		return false
	}
	if !k.until.IsZero() && !k.until.After(a.decider.Now.Add(a.lag)) {
		return false
	}
	if age := a.decider.Now.Sub(r.Request.Time()); age > maxIDAge || age < -maxIDAhead || a.recent.has(r.Request, now) {
		return false
	}
	k.advance(a.decider.Now)
	return a.decider.Room(&k.Key, *r) > 1+margin
}

// shortLocked reports whether the request needs what a turn may bring, and notes it for that turn.
func (a *account) shortLocked(r *hold.Reservation) bool {
	enough := true
	if r.Amount > a.decider.Free {
		enough, a.short = false, max(a.short, min(r.Amount, maxDemand))
	}
	if a.places <= 0 {
		enough, a.crowded = false, true
	}
	return !enough || a.decider.Open >= a.decider.MaxOpen
}

func (a *account) answerLocked() <-chan struct{} {
	if a.answered == nil {
		a.answered = make(chan struct{})
	}
	return a.answered
}

// due reports whether the account needs a turn.
func (a *account) due(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.phase {
	case wanted, closing:
		return true
	case open:
		return len(a.pins) > 0 || now.Sub(a.turned) >= heartbeat || now.Sub(a.admitted) > idleAfter
	case opening, gone:
	}
	return false
}

// take returns what a turn that begins now writes, and false when there is no turn to take.
func (a *account) take(now time.Time) (Turn, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase == open && now.Sub(a.admitted) > idleAfter {
		a.moveLocked(recalled)
	}
	switch a.phase {
	case wanted:
		a.moveLocked(asked)
	case open, closing:
		a.advanceLocked(now)
	case opening, gone:
		return Turn{}, false
	}
	a.turned = now
	a.flying = len(a.pins)
	t := Turn{Account: a.id, Epoch: a.epoch, Pins: a.pins[:a.flying:a.flying], Now: a.decider.Now,
		ZeroPriced: a.decider.ZeroPriced, Close: a.phase == closing}
	for id, k := range a.keys {
		if !k.moved {
			continue
		}
		if t.Ahead == nil {
			t.Ahead = map[ids.KeyID][limit.Classes]time.Duration{}
		}
		k.advance(a.decider.Now)
		t.Ahead[id] = k.Ahead
		k.moved = false
		a.moved = append(a.moved, k)
	}
	if !t.Close {
		t.Want, t.Places = a.wantLocked(now)
	}
	return t, true
}

// wantLocked returns what the slice should have.
func (a *account) wantLocked(now time.Time) (money.NanoUSD, int64) {
	a.demand.fade(now)
	want, places := a.demand.want()
	want += a.short
	if a.crowded {
		places = max(places, 2*a.asked)
	}
	places = min(places, MaxPlaces)
	a.short, a.crowded, a.asked = 0, false, places
	return want, places
}

// told is what an answer to a turn changed.
type told struct {
	// written is the number of pins that are written since.
	written int
	// over reports whether the account has ended. unfinished reports whether the account needs another turn
	// to end, and closing whether its slice was closing before the answer.
	over, unfinished, closing bool
	// late is until when a failed turn may be committed late.
	late time.Time
	// keys are the keys that the account decides about now, in order; nil for those of before.
	keys []ids.KeyID
}

// answer takes the state that a turn left, which began and whose answer arrived at these moments by
// the owner's clock.
func (a *account) answer(st State, began, arrived time.Time) told {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := told{written: a.flying, closing: a.phase == closing, late: a.lateUntil}
	a.landLocked()
	a.pins, a.spare = append(a.spare[:0], a.pins[t.written:]...), a.pins
	clear(a.spare)
	a.written += uint64(t.written)
	switch {
	case st.Epoch == 0 && len(a.pins) > 0:
		a.moveLocked(endedUnwritten)
	case st.Epoch == 0:
		a.moveLocked(ended)
	default:
		a.moveLocked(granted)
		if a.epoch != 0 && a.epoch != st.Epoch || !st.Plain || st.Recalled {
			a.moveLocked(recalled)
		}
		a.epoch, a.alive = st.Epoch, arrived.Add(Lease)
	}
	if a.phase == open {
		t.keys = a.adoptLocked(st, began, arrived)
	}
	t.over, t.unfinished = a.phase == gone, a.phase == closing
	return t
}

// fail notes that a turn failed. Its pins stay, and its rates are written by the next one.
func (a *account) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lateUntil = a.turned.Add(lateFor)
	for _, k := range a.moved {
		k.moved = true
	}
	a.failures++
	a.failure = err
	a.landLocked()
	a.moveLocked(failed)
}

// landLocked ends the turn under way.
func (a *account) landLocked() {
	a.flying = 0
	clear(a.moved)
	a.moved = a.moved[:0]
	if a.answered != nil {
		close(a.answered)
		a.answered = nil
	}
}

// adoptLocked decides by a new state from now on, less what was admitted since its turn was taken. It
// returns the keys in order.
func (a *account) adoptLocked(st State, began, arrived time.Time) []ids.KeyID {
	last := a.decider
	a.decider = st.Account
	a.decider.ID = a.id
	a.decider.Now = later(last.Now, st.Account.Now)
	a.decider.ZeroPriced = max(left(st.Account.ZeroPriced, st.Account.Now, a.decider.Now),
		left(last.ZeroPriced, last.Now, a.decider.Now))
	a.decider.LeftOften = left(st.Account.LeftOften, st.Account.Now, a.decider.Now)
	a.decider.Free = st.Amount
	for i := range a.pins {
		a.decider.Free -= a.pins[i].Amount
	}
	a.decider.Open = st.Account.Open + int64(len(a.pins))
	a.places = min(st.Places, MaxPlaces) - int64(len(a.pins))
	a.anchor, a.anchored, a.lag = st.Account.Now, arrived, arrived.Sub(began)
	a.trusted = began.Add(Trust)
	known := make(map[ids.KeyID]*key, len(st.Keys))
	order := make([]ids.KeyID, 0, len(st.Keys))
	for i := range st.Keys {
		id := st.Keys[i].ID
		known[id] = a.adoptKeyLocked(&st.Keys[i], st.Account.Now)
		order = append(order, id)
	}
	a.keys = known
	slices.SortFunc(order, func(a, b ids.KeyID) int { return bytes.Compare(a[:], b[:]) })
	return order
}

// adoptKeyLocked returns the key by a new state whose moment is at. A rate is as far ahead as either
// knows: the owner's moved on since.
func (a *account) adoptKeyLocked(of *Key, at time.Time) *key {
	k := &key{Key: of.Key, until: of.Until, at: a.decider.Now}
	k.Models = slices.Clone(of.Models)
	for i := range k.Ahead {
		k.Ahead[i] = left(k.Ahead[i], at, k.at)
	}
	if last := a.keys[of.ID]; last != nil {
		last.advance(k.at)
		for i := range k.Ahead {
			k.Ahead[i] = max(k.Ahead[i], last.Ahead[i])
		}
		k.moved = last.moved
	}
	return k
}

// left is what is left at a later moment of what a rate was ahead at a moment.
func left(ahead time.Duration, at, later time.Time) time.Duration {
	return max(ahead-max(later.Sub(at), 0), 0)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isWanted reports whether the account has no slice yet, and no turn that asks for one is under way.
func (a *account) isWanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.phase == wanted
}

// recalling is what a recall found.
type recalling struct {
	before, after phase
	// admitted is the number of requests that the slice admitted.
	admitted uint64
	// alive is until when the slice may keep others from deciding.
	alive time.Time
}

// recall has the slice closed.
func (a *account) recall() recalling {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := recalling{before: a.phase, admitted: a.written + uint64(len(a.pins)), alive: a.alive}
	a.moveLocked(recalled)
	r.after = a.phase
	return r
}

// abandon gives up an account that is not gone, and returns the number of pins that may be unwritten.
func (a *account) abandon() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.wait)
	return len(a.pins)
}

// isGone reports whether everything is written and the slice is closed.
func (a *account) isGone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.phase == gone
}

// find returns how many pins of the account must be written before a pin is, by the count of written,
// and false when the pin is not of this slice.
func (a *account) find(p *hold.Pin) (needed uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch == 0 || p.Epoch != a.epoch {
		return 0, false
	}
	for i := range a.pins {
		if a.pins[i].Request == p.Request {
			return a.written + uint64(i) + 1, true
		}
	}
	return 0, true
}

// progress is how far the account's pins are written.
type progress struct {
	written, failures uint64
	failure           error
	answered          <-chan struct{}
}

func (a *account) progress() progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return progress{written: a.written, failures: a.failures, failure: a.failure, answered: a.answerLocked()}
}

// errStopped is the error of who waits for an owner that has stopped.
var errStopped = errors.New("the owner of the slice has stopped")

// waitWritten waits until n pins are written, or a turn fails.
func (a *account) waitWritten(ctx context.Context, n uint64) error {
	first := a.progress()
	for p := first; p.written < n; p = a.progress() {
		if p.failures > first.failures {
			return p.failure
		}
		select {
		case <-p.answered:
		case <-a.wait:
			if a.progress().written < n {
				return errStopped
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
