package user

import (
	"context"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/fault"
)

// inside bounds the calls from before their attempts are counted until they are answered.
// ofANetwork bounds such calls of one network.
const (
	inside     = 1024
	ofANetwork = 8
)

// counting and hashing bound the calls that count an attempt or hash a password at a
// time. The other calls wait. knownWaiting and strangersWaiting bound the calls that wait
// for hashing. A hash takes 25 ms, and two cores hash two at a time, so the calls that
// wait are served within four seconds, and gateways wait for five.
const (
	counting         = 2
	hashing          = 2
	knownWaiting     = 64
	strangersWaiting = 256
)

// retryAfter is the wait for a caller for which there was no room. Most of the calls that
// wait have been served by then.
const retryAfter = 2 * time.Second

// class is one of two kinds of callers. While both wait to hash, each has one of the two
// places. So strangers, however many, leave a place to callers from known networks, and
// known callers leave a place to everybody else. A call that counts an attempt is not
// known yet and counts as a stranger.
type class int

const (
	strangers class = iota
	known
	classes
)

func classOf(isKnown bool) class {
	if isKnown {
		return known
	}
	return strangers
}

// Passwords are the places in which passwords are hashed and attempts to sign in are
// counted. It is safe for concurrent use.
//
// Within a class the first call of each network comes before the second of any network,
// and of equal calls the newest comes first. In a flood the caller that has waited
// longest is the likeliest to have given up, and a queue in order of arrival would serve
// everybody too late. When too many wait, the last by that order is refused.
//
// Turns to count an attempt differ in two ways. No call is refused there. And every second turn
// goes to the call that has waited longest, because in a flood without end the newest calls
// would otherwise keep it waiting for ever.
//
// After 300 calls at once the next one is served within half a second (two cores with
// other work). Of a flood of 1,000 calls a second some 80 are hashed, so a stranger finds
// a place in one of twelve tries. A known network finds a place as long as attempts are
// counted as fast as they arrive. Someone behind the owner's own address can see by the
// flood that somebody signed in from there. Strangers learn nothing of an e-mail.
type Passwords struct {
	mu            sync.Mutex
	entered       uint64
	calls         int
	networks      map[Digest]int // calls inside, by network
	count, hashes queue
}

// queue has the places for one kind of work and the calls that wait for them. The lock
// must be held for its methods.
type queue struct {
	places  int
	limit   [classes]int // that wait
	atWork  [classes]int
	waiting [classes][]*waiter
	// alternates gives every second place to the call that has waited longest. turns counts the
	// places that were given.
	alternates bool
	turns      uint64
}

// waiter is a call that waits for a place.
type waiter struct {
	priority
	// turn gets one value, under the lock: whether there is a place.
	turn chan bool
}

// NewPasswords makes the places.
func NewPasswords() *Passwords {
	return &Passwords{
		networks: map[Digest]int{},
		count:    queue{places: counting, limit: [classes]int{strangers: inside}, alternates: true},
		hashes:   queue{places: hashing, limit: [classes]int{strangers: strangersWaiting, known: knownWaiting}},
	}
}

// seat is a call that is inside. It must leave.
type seat struct {
	passwords *Passwords
	network   Digest
	order     priority
}

// priority orders the calls.
type priority struct {
	// rank is the number of calls of its network that were inside before it.
	rank int
	// number counts the calls as they enter.
	number uint64
}

func (o priority) before(other priority) bool {
	return o.rank < other.rank || o.rank == other.rank && o.number > other.number
}

// enter lets a call of a network in. It fails with service_unavailable when the
// network, or all networks together, have too many inside.
func (p *Passwords) enter(network Digest) (*seat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rank := p.networks[network]
	if rank >= ofANetwork {
		return nil, crowded("too many sign in from this network at this moment")
	}
	if p.calls >= inside {
		return nil, crowded(crowdedHere)
	}
	p.entered++
	p.calls++
	p.networks[network]++
	return &seat{p, network, priority{rank, p.entered}}, nil
}

func (s *seat) leave() {
	p := s.passwords
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	if p.networks[s.network]--; p.networks[s.network] == 0 {
		delete(p.networks, s.network)
	}
}

// count runs fn, which counts an attempt or takes one back, in a place; see do.
func (s *seat) count(ctx context.Context, fn func() error) error {
	return s.do(ctx, &s.passwords.count, strangers, fn)
}

// hash runs fn, which hashes a password, in a place; see do.
func (s *seat) hash(ctx context.Context, of class, fn func() error) error {
	return s.do(ctx, &s.passwords.hashes, of, fn)
}

// do runs fn in a place. When too many calls wait, or no place is free in time, it fails
// with service_unavailable and fn has not run.
func (s *seat) do(ctx context.Context, l *queue, of class, fn func() error) error {
	w := &waiter{s.order, make(chan bool, 1)}
	s.locked(func() { l.join(of, w) })
	select {
	case ok := <-w.turn:
		if !ok {
			return crowded(crowdedHere)
		}
	case <-ctx.Done():
		s.locked(func() { l.giveUp(of, w) })
		return fault.Wrap(ctx.Err(), fault.Unavailable, fault.ServiceUnavailable, crowdedHere).After(retryAfter)
	}
	defer s.locked(func() { l.free(of) })
	return fn()
}

func (s *seat) locked(fn func()) {
	s.passwords.mu.Lock()
	defer s.passwords.mu.Unlock()
	fn()
}

// crowdedHere is the error for a call for which there is no place.
const crowdedHere = "too many sign in at this moment"

func crowded(text string) error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "%s", text).After(retryAfter)
}

// join has a call wait, and refuses the last call when too many wait.
func (l *queue) join(of class, w *waiter) {
	l.waiting[of] = append(l.waiting[of], w)
	l.assign()
	if len(l.waiting[of]) <= l.limit[of] {
		return
	}
	last := 0
	for i, one := range l.waiting[of] {
		if l.waiting[of][last].before(one.priority) {
			last = i
		}
	}
	l.call(of, last, false)
}

// giveUp takes a call whose caller has left out of the queue, or out of its place.
func (l *queue) giveUp(of class, w *waiter) {
	if i := slices.Index(l.waiting[of], w); i >= 0 {
		l.call(of, i, false)
	} else if <-w.turn { // sent before it left the queue
		l.free(of)
	}
}

func (l *queue) free(of class) {
	l.atWork[of]--
	l.assign()
}

// assign gives free places to the calls whose turn it is.
func (l *queue) assign() {
	for l.atWork[strangers]+l.atWork[known] < l.places {
		of := known
		if len(l.waiting[known]) == 0 || len(l.waiting[strangers]) > 0 && l.atWork[known] > l.atWork[strangers] {
			of = strangers
		}
		if len(l.waiting[of]) == 0 {
			return
		}
		l.turns++
		l.atWork[of]++
		l.call(of, l.first(of), true)
	}
}

// first is the place in the queue of the call whose turn it is. A queue is in the order in
// which its calls joined it.
func (l *queue) first(of class) int {
	first := 0
	if l.alternates && l.turns%2 == 0 {
		return first
	}
	for i, one := range l.waiting[of] {
		if one.before(l.waiting[of][first].priority) {
			first = i
		}
	}
	return first
}

// call ends the wait of one call.
func (l *queue) call(of class, i int, place bool) {
	l.waiting[of][i].turn <- place
	l.waiting[of] = slices.Delete(l.waiting[of], i, i+1)
}
