package pg

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A connection that was idle for fresh is looked at before it is used again, and one that was
// idle for stale is asked, because a peer may have vanished without a word.
const (
	fresh = time.Second
	stale = time.Minute
)

// mustPing reports whether the pool asks a connection for an answer before it hands it out. A
// server that ends closes its connections, which shows without a round trip, so that the
// statements of an idle service cost one each and not two.
func mustPing(_ context.Context, p pgxpool.ShouldPingParams) bool {
	return p.IdleDuration > stale || p.IdleDuration > fresh && !isQuiet(p.Conn.PgConn().Conn())
}

// isQuiet reports whether a connection is open and brings nothing. What a server sends unasked
// is its farewell.
func isQuiet(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	// Control waits for nobody, and Read would wait for whoever reads from the connection: pgx may have
	// left a reader on it.
	var peeked error
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && (peeked == syscall.EAGAIN || peeked == syscall.EWOULDBLOCK)
}
