package session

import (
	"net/netip"
	"sync"
	"time"

	"svc.internal/pkg/clock"
)

// Of addresses whose sessions ended it is remembered for lately, and of at most
// maxLately addresses.
const (
	lately    = time.Minute
	maxLately = 16_384
)

// leastEach is what one network may hold of the room however small that is.
const leastEach = 64

// door bounds the sockets that are not registered. An agent whose very first
// dial is refused may never dial again, whereas one that has lost its connection
// does. So when half of the room is taken, those are sent away who were here
// just now and those of a network that holds a quarter of it, and only when all
// of it is taken everybody is. It is safe for concurrent use.
type door struct {
	clock clock.Clock
	most  int
	each  int // of one network

	mu      sync.Mutex
	waiting int
	held    map[netip.Addr]int // of waiting, by network, without zeros
	live    map[netip.Addr]int // without zeros
	left    map[netip.Addr]time.Time
}

func newDoor(most int, c clock.Clock) *door {
	return &door{clock: c, most: most, each: max(most/4, leastEach), held: map[netip.Addr]int{}, live: map[netip.Addr]int{}, left: map[netip.Addr]time.Time{}}
}

// enter lets a socket in if there is room for it.
func (d *door) enter(from netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	crowded := d.waiting >= d.most/2
	if d.waiting >= d.most || crowded && (d.knows(from) || d.held[network(from)] >= d.each) {
		return false
	}
	if from.IsValid() {
		d.held[network(from)]++
	}
	d.waiting++
	return true
}

// free gives a place up. Needs the mutex.
func (d *door) free(from netip.Addr) {
	d.waiting--
	if !from.IsValid() {
		return
	}
	if n := network(from); d.held[n] > 1 {
		d.held[n]--
	} else {
		delete(d.held, n)
	}
}

// network is what one party has: an address, or a /64 of IPv6.
func network(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// crowded reports whether half of the room is taken.
func (d *door) crowded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting >= d.most/2
}

// knows reports whether an address had a live session lately. Needs the mutex.
func (d *door) knows(from netip.Addr) bool {
	if d.live[from] > 0 {
		return true
	}
	left, ok := d.left[from]
	return ok && d.clock.Now().Sub(left) < lately
}

// admitted notes that a socket is registered.
func (d *door) admitted(from netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free(from)
	if from.IsValid() {
		d.live[from]++
	}
}

// leave notes that a socket is gone, which was registered or was not.
func (d *door) leave(from netip.Addr, admitted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !admitted {
		d.free(from)
		return
	}
	if !from.IsValid() {
		return
	}
	if d.live[from]--; d.live[from] <= 0 {
		delete(d.live, from)
	}
	d.remember(from)
}

// remember needs the mutex.
func (d *door) remember(from netip.Addr) {
	now := d.clock.Now()
	if len(d.left) >= maxLately {
		for addr, left := range d.left {
			if now.Sub(left) >= lately {
				delete(d.left, addr)
			}
		}
	}
	if len(d.left) < maxLately {
		d.left[from] = now
	}
}

// count is how many sockets are not registered.
func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}
