package sessiontest

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// Pipes is a listener over in-memory pipes, which testing/synctest can wait on.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes is a listener that is open.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// Dial connects to the listener, whatever the address.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	return p.hand(ctx, near, far)
}

// DialFrom connects to the listener from an address.
func (p *Pipes) DialFrom(ctx context.Context, from netip.Addr) (net.Conn, error) {
	near, far := net.Pipe()
	return p.hand(ctx, near, farConn{far, from})
}

// farConn is a connection from an address.
type farConn struct {
	net.Conn
	from netip.Addr
}

func (c farConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 1)) }

// hand gives the listener the far end of a connection.
func (p *Pipes) hand(ctx context.Context, near, far net.Conn) (net.Conn, error) {
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
