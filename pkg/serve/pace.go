package serve

import (
	"net"
	"time"
)

// Pace is lis, whose Accept returns perSecond connections a second, a few at a
// time and not in bursts; more wait in the backlog of the kernel, which
// lets those that find no room there try again. A server that many thousands
// dial at the same moment so stays responsive to those it has already. 0 is no
// bound.
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
	next     time.Time // when the next may be accepted
}

// pacedAhead is what a wait for less is not worth: it takes longer than that.
const pacedAhead = time.Millisecond

// Accept waits for its turn and for a connection.
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
