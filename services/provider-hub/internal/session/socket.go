package session

import (
	"sync"
	"time"
)

// socket is the transport of one session.
type socket struct {
	session *Session
	in      *intake
	out     *batchConn
	buffers *sync.Pool
}

// run serves the socket until it is closed.
func (c *socket) run() {
	s := c.session
	c.in.answer = c.answer
	c.out.batch()
	s.born = time.Now()
	s.begin()
	var writer sync.WaitGroup
	writer.Go(c.write)
	defer func() { // whatever happens to the reader
		s.end()
		writer.Wait()
		s.house.exit.pass(func() { c.out.Close() })
	}()
	if v, ok := violationIn(c.in.read()); ok {
		s.Shut(broken(v))
		c.in.discard()
	}
}

// answer echoes the peer's close frame.
func (c *socket) answer(status uint16) {
	c.out.close(status, "")
	_ = c.out.flush(c.session.cfg.WriteTimeout) // the socket goes either way
}

// write sends what is due until the socket fails or is closed.
func (c *socket) write() {
	s := c.session
	live := &liveness{timer: time.NewTimer(s.cfg.PingInterval)}
	defer live.timer.Stop()
	var o outbox
	for {
		s.next(&o)
		if err := c.send(&o, live); err != nil {
			c.out.Close() // ends the reader too
			return
		}
		if o.closing != nil {
			c.linger(&o)
			return
		}
		if o.more {
			continue
		}
		select {
		case <-s.wake:
		case <-s.done:
			return
		case <-live.timer.C:
			if live.rings(c) {
				c.out.Close()
				return
			}
		}
	}
}

// linger keeps the socket open behind the Error frame, for the agent to read
// why it ends, and then closes it. An agent that may dial at once is not told
// of the close before the hold is over; its pings are answered as long.
func (c *socket) linger(o *outbox) {
	defer c.out.Close()
	s := c.session
	began := time.Now()
	o.age = began.Sub(s.born)
	for {
		rest := s.hold(o) - time.Since(began)
		if rest <= 0 {
			break
		}
		hold := time.NewTimer(min(rest, holdStep))
		select {
		case <-hold.C:
		case <-s.done:
			hold.Stop()
			return
		case <-s.wake:
			hold.Stop()
			if s.nextPong(o); c.pong(o) != nil {
				return
			}
		}
	}
	reason := o.closing.Code
	if o.closing.bare {
		reason = o.closing.Message
	}
	c.out.close(o.status, reason)
	if c.out.flush(s.cfg.WriteTimeout) != nil {
		return
	}
	// The peer closes first, or what it has not read yet might be lost.
	last := time.NewTimer(lingerHold)
	defer last.Stop()
	select {
	case <-last.C:
	case <-s.done:
	}
}

const (
	// holdStep is how often a socket that is held looks whether others need its
	// place, and shortHold how long it may keep it then.
	holdStep  = time.Second
	shortHold = 2100 * time.Millisecond
)

// hold is how long the socket is held behind the Error frame. One that was never
// registered stands in the way of those who wait.
func (s *Session) hold(o *outbox) time.Duration {
	hold := o.hold
	if hold > shortHold && s.house.door.crowded() && !s.wasLive() {
		hold = shortHold
	}
	return max(hold, s.terms.minAge-o.age)
}

// pong answers a ping.
func (c *socket) pong(o *outbox) error {
	if !o.pongDue {
		return nil
	}
	c.out.frame(opPong, o.pong)
	return c.out.flush(c.session.cfg.WriteTimeout)
}

// send writes one batch.
func (c *socket) send(o *outbox, live *liveness) error {
	if len(o.frames) > 0 {
		if err := c.sendFrames(o.frames); err != nil {
			return err
		}
	}
	c.sendLiveness(o, live)
	return c.out.flush(c.session.cfg.WriteTimeout)
}

func (c *socket) sendFrames(frames []frame) error {
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	// An idle socket keeps no request alive.
	defer clear(frames)
	s := c.session
	for _, f := range frames {
		head, body, tail, err := f.parts((*buf)[:0])
		if err != nil {
			return err
		}
		if err := c.out.message(s.terms.opcode, head, body, tail, s.cfg.WriteTimeout); err != nil {
			return err
		}
	}
	return nil
}
