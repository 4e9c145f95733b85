package gate

import (
	"net/netip"
	"sync"
	"time"

	"svc.internal/pkg/clock"
)

// The addresses of sessions that ended are remembered for lately, at most maxLately of
// them.
const (
	lately    = time.Minute
	maxLately = 16_384
)

// minEach is what one network may hold of the room, however small the room is.
const minEach = 64

// admission bounds the sockets that are not registered. An agent whose very first dial is
// refused may never dial again, but an agent that has lost its connection does. So when
// half of the room is taken, it refuses agents that had a session lately and agents of a
// network that holds a quarter of the room. Only when all of it is taken does it refuse
// everybody. It is safe for concurrent use.
type admission struct {
	clock clock.Clock
	max   int
	each  int // of one network

	mu      sync.Mutex
	waiting int
	held    map[netip.Addr]int // of waiting, by network, without zeros
	live    map[netip.Addr]int // by address, without zeros
	left    map[netip.Addr]time.Time
}

func newAdmission(maxWaiting int, c clock.Clock) *admission {
	return &admission{
		clock: c, max: maxWaiting, each: max(maxWaiting/4, minEach),
		held: map[netip.Addr]int{}, live: map[netip.Addr]int{}, left: map[netip.Addr]time.Time{},
	}
}

// enter lets a socket in if there is room for it.
func (a *admission) enter(from netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	crowded := a.waiting >= a.max/2
	if a.waiting >= a.max || crowded && (a.knowsLocked(from) || a.held[network(from)] >= a.each) {
		return false
	}
	if from.IsValid() {
		a.held[network(from)]++
	}
	a.waiting++
	return true
}

// freeLocked frees a place.
func (a *admission) freeLocked(from netip.Addr) {
	a.waiting--
	if !from.IsValid() {
		return
	}
	if n := network(from); a.held[n] > 1 {
		a.held[n]--
	} else {
		delete(a.held, n)
	}
}

// network is the part of an address that one party has: an address, or a /64 of IPv6.
func network(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// crowded reports whether half of the room is taken.
func (a *admission) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting >= a.max/2
}

// knowsLocked reports whether an address had a live session lately.
func (a *admission) knowsLocked(from netip.Addr) bool {
	if a.live[from] > 0 {
		return true
	}
	left, ok := a.left[from]
	return ok && a.clock.Now().Sub(left) < lately
}

// admitted notes that a socket is registered.
func (a *admission) admitted(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.freeLocked(from)
	if from.IsValid() {
		a.live[from]++
	}
}

// leave notes that a socket is closed, and whether it was registered.
func (a *admission) leave(from netip.Addr, registered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !registered {
		a.freeLocked(from)
		return
	}
	if !from.IsValid() {
		return
	}
	if a.live[from]--; a.live[from] <= 0 {
		delete(a.live, from)
	}
	a.rememberLocked(from)
}

func (a *admission) rememberLocked(from netip.Addr) {
	now := a.clock.Now()
	if len(a.left) >= maxLately {
		for addr, left := range a.left {
			if now.Sub(left) >= lately {
				delete(a.left, addr)
			}
		}
	}
	if len(a.left) < maxLately {
		a.left[from] = now
	}
}

// count is the number of sockets that are not registered.
func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting
}
