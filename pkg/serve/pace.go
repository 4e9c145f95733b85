package serve

import (
	"net"
	"time"
)

// Pace returns lis with an Accept that returns perSecond connections a second, a few at a
// time and not in bursts. More connections wait in the kernel's backlog. When that is
// full, the kernel has clients try again. So a server that many thousands of clients dial
// at the same moment stays responsive to the connections that it has. 0 is no bound.
func Pace(lis net.Listener, perSecond int) net.Listener {
	if perSecond <= 0 {
		return lis
	}
	return &paced{Listener: lis, interval: time.Second / time.Duration(perSecond)}
}

// paced is for one goroutine that accepts, as a server has.
type paced struct {
	net.Listener
	interval time.Duration
	next     time.Time // before it no connection is returned
}

// pacedAhead is the longest wait that Accept skips, because a timer would take longer.
const pacedAhead = time.Millisecond

// Accept waits for its turn, and for a connection.
func (p *paced) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	now := time.Now()
	if wait := p.next.Sub(now); wait > pacedAhead && err == nil {
		<-time.After(wait)
	}
	p.next = p.next.Add(p.interval)
	if p.next.Before(now) {
		p.next = now
	}
	return conn, err
}
