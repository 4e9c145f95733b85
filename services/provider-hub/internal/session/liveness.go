package session

import "time"

// chat spends a token for what an agent may send without having been asked.
// Needs the mutex.
func (s *Session) chat() *Closing {
	if !s.chatter.take(s.house.clock.Now()) {
		return protocolError("too many heartbeats, pings or empty frames")
	}
	return nil
}

// onPing keeps the answer to a ping for the writer; of several that wait only
// the last is answered, as the WebSocket standard allows.
func (s *Session) onPing(payload []byte) *Closing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pong, s.pongDue = append(s.pong[:0], payload...), true
	s.signal()
	return s.chat()
}

// onPong tells the writer that the agent lives.
func (s *Session) onPong() *Closing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pongSeen = true
	s.signal()
	return s.chat()
}

const (
	// minPing is the least pause between pings that requests ask for: many that
	// wait on one agent need one answer.
	minPing = time.Second
	// slowLink is what a link carries at least, in bytes a second: a pong comes
	// behind all that was sent before the ping.
	slowLink = 256 << 10
)

// liveness is the writer's account of pings.
type liveness struct {
	timer   *time.Timer
	due     bool      // the next batch carries a ping
	wanted  bool      // by a request
	waiting bool      // for a sign of life behind the last ping
	asked   bool      // a request waits for that, too
	reads   uint64    // at the last ping
	last    time.Time // of the last ping
	misses  int
}

// rings takes the timer. It reports whether the peer is dead: one that a request
// waits for is after one ping without a sign of life, an idle one after two.
func (l *liveness) rings(c *socket) (dead bool) {
	if l.waiting && c.out.reads.Load() != l.reads {
		l.lives(c.session.cfg.PingInterval) // without a pong, but it says something
		return false
	}
	if l.waiting {
		l.waiting = false
		l.misses++
		if l.asked || l.misses > 1 {
			return true
		}
	}
	l.due = true
	return false
}

// lives notes a sign of life.
func (l *liveness) lives(next time.Duration) {
	l.waiting, l.asked, l.misses = false, false, 0
	if !l.wanted {
		l.timer.Reset(next)
	}
}

// probed reports whether a ping that a request asks for goes out now. While the
// answer to another such is awaited none does: a second question would not be
// answered sooner. One soon after the last is put off.
func (l *liveness) probed() bool {
	if l.asked {
		return false
	}
	l.wanted = true
	if rest := minPing - time.Since(l.last); !l.waiting && rest > 0 {
		l.timer.Reset(rest)
		return false
	}
	return true
}

// sendLiveness answers a ping and asks for one.
func (c *socket) sendLiveness(o *outbox, live *liveness) {
	cfg := &c.session.cfg
	if o.pongDue {
		c.out.frame(opPong, o.pong)
	}
	if o.answered {
		live.lives(cfg.PingInterval)
	}
	if o.ping && live.probed() {
		live.due = true
	}
	if !live.due {
		return
	}
	wait := cfg.PongTimeout
	if live.wanted {
		behind := time.Duration(c.out.unheard.Load()/slowLink) * time.Second
		wait = min(cfg.ProbeTimeout, cfg.PongTimeout) + min(behind, cfg.PongTimeout)
	}
	live.waiting, live.asked, live.due, live.wanted = true, live.wanted, false, false
	live.reads, live.last = c.out.reads.Load(), time.Now()
	live.timer.Reset(wait)
	c.out.frame(opPing, nil)
}
