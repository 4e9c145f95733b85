package gate

import (
	"time"

	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	// holdStep is the pause between two looks of a held socket whether others need its
	// place, and shortHold how long it may keep the place then.
	holdStep  = time.Second
	shortHold = 2100 * time.Millisecond
)

// linger keeps the socket open after the last message, so that the agent can read why it
// ends, and then closes it. An agent that may dial at once hears of the close only after
// the hold; its pings are answered until then.
func (c *socket) linger(o *session.Outbox, end dialect.Ending) {
	defer c.conn.Close()
	began, due := time.Now(), c.turn.wait()
	for {
		rest := c.hold(end, began) - time.Since(began)
		if rest <= 0 {
			break
		}
		hold := time.NewTimer(min(rest, holdStep))
		select {
		case <-hold.C:
		case <-c.session.Done():
			hold.Stop()
			return
		case <-due:
			hold.Stop()
			if c.session.NextPong(o); c.pong(o) != nil {
				return
			}
		}
	}
	reason := o.Closing.Code
	if o.Closing.Bare {
		reason = o.Closing.Message
	}
	c.conn.CloseFrame(end.Status, reason)
	if c.conn.Flush() != nil {
		return
	}
	// The peer closes first, because messages that it has not read yet might otherwise be
	// lost.
	last := time.NewTimer(session.LingerHold)
	defer last.Stop()
	select {
	case <-last.C:
	case <-c.session.Done():
	}
}

// hold is how long the socket is held after the last message, which was sent when the
// hold began. The hold of a socket that was never registered is cut to shortHold while
// half of the room is taken, because the socket keeps its place until it is closed.
func (c *socket) hold(end dialect.Ending, began time.Time) time.Duration {
	hold := end.Hold
	if hold > shortHold && c.gate.admission.crowded() && !c.registered.Load() {
		hold = shortHold
	}
	return max(hold, c.dialect.MinAge-began.Sub(c.born))
}

// pong answers a ping.
func (c *socket) pong(o *session.Outbox) error {
	if !o.PongDue {
		return nil
	}
	c.conn.Pong(o.Pong)
	return c.conn.Flush()
}
