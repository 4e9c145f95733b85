// Package sockets bounds the connections of the public listener, in all and for each
// network, so that nobody can hold all of the gateway's descriptors and memory by opening
// sockets and sending little.
//
// A connection beyond a bound is closed before a byte of it is read, because an answer
// would cost what the bound protects, and it is counted in
// svc.edge_gateway.connections.refused. A network is an IPv4 address or an IPv6 /64.
// Trusted proxies carry the requests of many clients, so only the bound on all
// connections applies to theirs.
package sockets

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Config has the bounds.
type Config struct {
	// MaxConnections bounds all connections, MaxPerNetwork the connections of one
	// network.
	MaxConnections, MaxPerNetwork int
	// Trusted are the networks of proxies.
	Trusted []netip.Prefix
}

// Reason is why a connection was closed.
type Reason string

// The reasons.
const (
	Full        Reason = "full"
	NetworkFull Reason = "network_full"
)

// Listener is a bounded listener. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg     Config
	network func(netip.Addr) netip.Prefix
	refused func(Reason)

	mu        sync.Mutex
	open      int
	ofNetwork map[netip.Prefix]int
}

// Bound bounds a listener. network returns the network that an address counts for.
// refused is called for each connection that was closed at once.
func Bound(lis net.Listener, cfg Config, network func(netip.Addr) netip.Prefix, refused func(Reason)) *Listener {
	return &Listener{Listener: lis, cfg: cfg, network: network, refused: refused, ofNetwork: map[netip.Prefix]int{}}
}

// Accept returns the next connection within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		network := l.networkOf(conn)
		reason := l.take(network)
		if reason == "" {
			return l.counted(conn, network), nil
		}
		l.refused(reason)
		_ = conn.Close() // nothing was sent to the client
	}
}

// Open returns how many connections are open.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// networkOf returns the network that a connection counts for; the zero value for a
// connection that counts for no network.
func (l *Listener) networkOf(conn net.Conn) netip.Prefix {
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := from.AddrPort().Addr().Unmap().WithZone("")
	if slices.ContainsFunc(l.cfg.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return netip.Prefix{}
	}
	return l.network(addr)
}

// take counts a connection, or returns the bound that it would exceed.
func (l *Listener) take(network netip.Prefix) Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= l.cfg.MaxConnections:
		return Full
	case network.IsValid() && l.ofNetwork[network] >= l.cfg.MaxPerNetwork:
		return NetworkFull
	}
	l.open++
	if network.IsValid() {
		l.ofNetwork[network]++
	}
	return ""
}

func (l *Listener) release(network netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !network.IsValid() {
		return
	}
	if l.ofNetwork[network]--; l.ofNetwork[network] == 0 {
		delete(l.ofNetwork, network)
	}
}

// counted returns a connection that gives its place back when it is closed. A TCP
// connection keeps the methods that net/http uses of it: half-closing, and copying within
// the kernel.
func (l *Listener) counted(conn net.Conn, network netip.Prefix) net.Conn {
	release := sync.OnceFunc(func() { l.release(network) })
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &tcpConn{TCPConn: tcp, release: release}
	}
	return &otherConn{Conn: conn, release: release}
}

type tcpConn struct {
	*net.TCPConn
	release func()
}

// Close closes the connection and gives its place back.
func (c *tcpConn) Close() error {
	defer c.release()
	return c.TCPConn.Close()
}

type otherConn struct {
	net.Conn
	release func()
}

// Close closes the connection and gives its place back.
func (c *otherConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
