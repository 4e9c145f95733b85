package crowd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
)

// What agents do by themselves, as observed of v1 and as ours of v2 does it.
const (
	beatV1    = 30 * time.Second
	beatV2    = 10 * time.Second
	pingV1    = 54 * time.Second
	handshake = 10 * time.Second
	// writing bounds one write.
	writing = 10 * time.Second
)

// agent is one of the crowd.
type agent struct {
	crowd    *Crowd
	member   Member
	dialer   *websocket.Dialer
	register []byte
	beat     func(seq uint32) []byte
	comeback comeback

	mu   sync.Mutex // of what follows, and of writes
	conn *websocket.Conn
	up   bool // registered
	cut  bool // by us
	seq  uint32
}

func newAgent(c *Crowd, m Member, from netip.Addr) *agent {
	a := &agent{crowd: c, member: m, comeback: comeback{dialect: m.Dialect}}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	a.dialer = &websocket.Dialer{
		NetDialContext: dialer.DialContext, HandshakeTimeout: handshake,
		ReadBufferSize: 512, WriteBufferSize: 512, WriteBufferPool: &c.writeBuffers,
	}
	switch m.Dialect {
	case V2:
		a.dialer.Subprotocols = []string{agentwire.Subprotocol}
		a.register, a.beat = registerV2(m), heartbeatV2
	case V1:
		a.register = registerV1(m)
		beat := heartbeatV1(m)
		a.beat = func(uint32) []byte { return beat }
	case Bare:
	}
	return a
}

// live is the agent's life: one connection after another.
func (a *agent) live(ctx context.Context) {
	for ctx.Err() == nil {
		wait := a.serve(ctx)
		if a.member.Dialect == Bare {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// serve dials, uses the connection as long as it lasts and returns how long to
// wait before the next.
func (a *agent) serve(ctx context.Context) (wait time.Duration) {
	conn, answer, err := a.dialer.DialContext(ctx, a.crowd.url, nil)
	if err != nil {
		if ctx.Err() == nil {
			a.crowd.refusals.Add(1)
			if answer == nil {
				a.crowd.blame(err)
			}
		}
		return a.comeback.refused(retryAfter(answer))
	}
	began := time.Now()
	told, err := a.use(conn)
	a.end(ctx, err)
	return a.comeback.lost(time.Since(began), told)
}

func retryAfter(answer *http.Response) time.Duration {
	if answer == nil {
		return 0
	}
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// use registers and reads until the connection ends. It returns how long the
// hub asked to stay away.
func (a *agent) use(conn *websocket.Conn) (told time.Duration, err error) {
	conn.SetPingHandler(func(payload string) error {
		return conn.WriteControl(websocket.PongMessage, []byte(payload), time.Now().Add(writing))
	})
	a.mu.Lock()
	a.conn, a.cut, a.seq = conn, false, 1
	if a.register != nil {
		err = a.write(a.register)
	}
	a.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if a.member.Dialect == Bare {
		a.registered()
	}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return told, err
		}
		m := read(a.member.Dialect, message)
		switch {
		case m.registered:
			a.registered()
		case m.refusal != "":
			told = m.after
			a.crowd.blame(errors.New("the hub refuses: " + m.refusal))
		}
	}
}

func (a *agent) registered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.up || a.cut {
		return
	}
	a.up = true
	a.crowd.registered.Add(1)
	a.crowd.registrations.Add(1)
}

// end forgets the connection.
func (a *agent) end(ctx context.Context, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.conn.Close() // it has ended one way or the other
	a.conn = nil
	if a.up {
		a.up = false
		a.crowd.registered.Add(-1)
	}
	if !a.cut && ctx.Err() == nil {
		a.crowd.losses.Add(1)
		a.crowd.blame(why)
	}
}

// reset breaks the connection, if there is one.
func (a *agent) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return
	}
	a.cut = true
	if a.up {
		a.up = false
		a.crowd.registered.Add(-1)
	}
	if tcp, ok := a.conn.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the connection is closed one way or the other
	}
	a.conn.NetConn().Close()
}

// onTick sends what is due at the n-th tick of a hundredth of an interval.
func (a *agent) onTick(i, n int) {
	every := slots
	if a.member.Dialect == V1 {
		every = slots * int(beatV1/beatV2)
	}
	pings := slots * int(pingV1) / int(beatV2)
	beats, ping := (i+n)%every == 0, a.member.Dialect == V1 && (i+n)%pings == 0
	if !beats && !ping {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.up || a.beat == nil {
		return
	}
	if ping {
		_ = a.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writing)) // the reader hears of a broken socket
	}
	if beats {
		a.seq++
		_ = a.write(a.beat(a.seq)) // as above
	}
}

// write needs the mutex.
func (a *agent) write(message []byte) error {
	if err := a.conn.SetWriteDeadline(time.Now().Add(writing)); err != nil {
		return err
	}
	kind := websocket.BinaryMessage
	if a.member.Dialect == V1 {
		kind = websocket.TextMessage
	}
	return a.conn.WriteMessage(kind, message)
}

// comeback is the rule by which an agent dials again.
type comeback struct {
	dialect  Dialect
	failures int
}

// Agents of v1 come back at once, and wait longer each time that a dial is
// refused; those of v2 wait at random, at most as long as the ceiling, which
// doubles, unless they are told how long, and then up to a quarter longer.
const (
	atOnceV1 = time.Millisecond
	firstV2  = 250 * time.Millisecond
	longest  = 30 * time.Second
	stableV2 = time.Minute
	maxSteps = 10
)

// lost is the wait after a connection that lived for so long.
func (c *comeback) lost(lived, told time.Duration) time.Duration {
	if c.dialect != V2 {
		c.failures = 0
		return atOnceV1
	}
	if lived >= stableV2 {
		c.failures = 0
	}
	return c.random(told)
}

// refused is the wait after a dial that failed.
func (c *comeback) refused(told time.Duration) time.Duration {
	if c.dialect == V2 {
		return c.random(told)
	}
	wait := min(time.Second<<min(c.failures, maxSteps), longest)
	c.failures++
	return wait
}

func (c *comeback) random(told time.Duration) time.Duration {
	if told > 0 {
		return told + rand.N(told/4+1) //nolint:gosec // spreads load, guards nothing
	}
	ceiling := min(firstV2<<min(c.failures, maxSteps), longest)
	c.failures++
	return rand.N(ceiling) //nolint:gosec // spreads load, guards nothing
}
