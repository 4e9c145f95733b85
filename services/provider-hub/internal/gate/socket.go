package gate

import (
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// run serves the socket until it is closed.
func (c *socket) run() {
	c.born = time.Now()
	c.session.Begin()
	cfg := &c.gate.cfg
	c.live = wsconn.NewLiveness(c.conn, wsconn.Timing{
		PingInterval: cfg.PingInterval, PongTimeout: cfg.PongTimeout, ProbeTimeout: cfg.ProbeTimeout,
	}, c.ring)
	c.writer = c.write
	go c.writer()  // for what became due before
	defer func() { // whatever happens to the reader
		c.leave()
		c.turn.end()
		c.live.Stop()
		c.gate.teardown.pass(c.conn.Close)
	}()
	var v *wsconn.Violation
	if err := c.conn.Read(c); errors.As(err, &v) {
		c.session.Shut(broken(v))
		c.conn.Discard()
	}
}

// broken ends a connection that violates RFC 6455.
func broken(v *wsconn.Violation) *session.CloseReason {
	return &session.CloseReason{Code: agentwire.CodeProtocolError, Message: v.Text, Status: v.Status, Bare: true}
}

// leave ends the session of a closed socket, and removes it from the registrar. Its
// requests fail at once, and nobody opens another.
func (c *socket) leave() {
	if busy := c.session.SocketClosed(); busy {
		c.session.End()
	} else {
		c.gate.teardown.pass(c.session.End)
	}
	// A key look-up under way may still make the session join.
	c.lookUps.Wait()
	c.gate.teardown.pass(func() {
		c.gate.registrar.Leave(c.session)
		c.gate.admission.leave(c.from, c.registered.Load())
	})
}

// Closing implements wsconn.Handler.
func (c *socket) Closing() bool { return c.session.State() >= session.Closing }

// MaxMessage implements wsconn.Handler.
func (c *socket) MaxMessage() int64 {
	if c.registered.Load() {
		return c.dialect.MaxMessage
	}
	return c.dialect.MaxUnregistered
}

// Owner implements wsconn.Handler.
func (c *socket) Owner() ids.ProviderID { return c.session.Identity().ProviderID }

// Keeps implements wsconn.Handler: only an answer is larger than MaxUnasked.
func (c *socket) Keeps(size int64) bool {
	return size <= c.dialect.MaxUnasked || c.session.Streams() > 0
}

// Message implements wsconn.Handler.
func (c *socket) Message(msg []byte) {
	c.shut(c.receive(msg))
	if c.in.Kind == session.KindRegister {
		if shown, waits := c.session.Enrolment(); waits {
			c.lookUps.Go(func() { c.enrol(shown) })
		}
	}
	c.in = session.Inbound{} // it aliases a buffer that others use
}

// receive returns why a message ends the connection; nil where it does not.
func (c *socket) receive(msg []byte) *session.CloseReason {
	if err := c.dialect.Decode(msg, &c.in); err != nil {
		return c.session.Unreadable(err)
	}
	return c.session.Receive(&c.in)
}

// Discarded implements wsconn.Handler.
func (c *socket) Discarded(head []byte, size int64) {
	c.shut(c.session.Discarded(c.dialect.Name(head), size))
}

// TooLarge implements wsconn.Handler. The message may be a registration, whose agent
// would dial again at once and send the same, so it is refused like any other.
func (c *socket) TooLarge(before, length int64) {
	if length > c.dialect.MaxUnasked-before || c.registered.Load() {
		return
	}
	why := session.Refused(c.gate.cfg.Session, agentwire.CodeProtocolError,
		fmt.Sprintf("a registration may have at most %d bytes", c.dialect.MaxUnregistered))
	why.Status = wsconn.StatusTooBig
	c.session.Shut(why)
}

// Ping implements wsconn.Handler.
func (c *socket) Ping(payload []byte) { c.shut(c.session.Ping(payload)) }

// Pong implements wsconn.Handler.
func (c *socket) Pong() { c.shut(c.session.Pong()) }

// write sends what is due until nothing is, or until the socket fails or is closed.
func (c *socket) write() {
	o := &c.out
	for {
		if c.rung.Swap(false) && c.live.Rings() {
			c.conn.Close() // ends the reader too
			c.turn.quit()
			return
		}
		c.session.Next(o)
		var end dialect.Ending
		if o.Closing != nil {
			end = c.dialect.Ending(o.Closing)
		}
		if err := c.send(o, end.Silent); err != nil {
			c.conn.Close()
			c.turn.quit()
			return
		}
		if o.Closing != nil {
			c.linger(o, end)
			c.turn.quit()
			return
		}
		if !o.More && c.turn.give() {
			return
		}
	}
}

// send writes one batch, without its messages where it is silent.
func (c *socket) send(o *session.Outbox, silent bool) error {
	if len(o.Messages) > 0 && !silent {
		if err := c.sendMessages(o.Messages); err != nil {
			return err
		}
	}
	if o.PongDue {
		c.conn.Pong(o.Pong)
	}
	c.live.Batch(o.Answered, o.Ping)
	if o.Answered {
		c.session.Measured(c.live.RoundTrip())
	}
	return c.conn.Flush()
}

// sendMessages keeps messages for the next flush, and then forgets them, so that an idle
// socket keeps no request alive.
func (c *socket) sendMessages(all []session.Outbound) error {
	buf := c.gate.pool.Get()
	defer c.gate.pool.Put(buf)
	defer clear(all)
	for i := range all {
		head, body, tail, err := c.dialect.Append((*buf)[:0], &all[i])
		if err != nil {
			return err
		}
		if err := c.conn.Message(head, body, tail); err != nil {
			return err
		}
	}
	return nil
}
