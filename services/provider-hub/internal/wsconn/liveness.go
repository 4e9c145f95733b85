package wsconn

import "time"

const (
	// minPing is the least pause between pings that requests ask for: many that
	// wait on one agent need one answer.
	minPing = time.Second
	// slowLink is what a link carries at least, in bytes a second: a pong comes
	// behind all that was sent before the ping.
	slowLink = 256 << 10
)

// Timing is when a peer is asked whether it lives.
type Timing struct {
	// PingInterval is the pause between pings. A pong, or any other sign of life, is
	// due within PongTimeout.
	PingInterval, PongTimeout time.Duration
	// ProbeTimeout is the same for a ping that a waiting request asked for. Bytes that
	// were sent before it add the time that they take on a slow link, at most
	// PongTimeout.
	ProbeTimeout time.Duration
}

// Liveness is the writer's account of pings. A peer that a request waits for is dead
// after one ping without a sign of life, an idle peer after two. It is for the
// goroutine that writes.
type Liveness struct {
	conn    *Conn
	timing  Timing
	timer   *time.Timer
	at      time.Time // when the timer runs
	due     bool      // the next batch carries a ping
	wanted  bool      // by a request
	waiting bool      // for a sign of life behind the last ping
	asked   bool      // a request waits for that, too
	reads   uint64    // at the last ping
	last    time.Time // of the last ping
	misses  int
	// sole reports that no other ping was without its pong when the last ping went out.
	// roundTrip is how long the pong of the last such ping took; 0 before the first.
	sole      bool
	roundTrip time.Duration
}

// NewLiveness begins to ask. Stop ends it. ring is called, in a goroutine of its own, when Rings is due.
func NewLiveness(c *Conn, t Timing, ring func()) *Liveness {
	at := time.Now().Add(t.PingInterval)
	return &Liveness{conn: c, timing: t, at: at, timer: time.AfterFunc(t.PingInterval, ring)}
}

// reset has the timer run after d.
func (l *Liveness) reset(d time.Duration) {
	l.at = time.Now().Add(d)
	l.timer.Reset(d)
}

// Stop stops the timer.
func (l *Liveness) Stop() { l.timer.Stop() }

// Rings takes the timer, and reports whether the peer is dead. A call that is late, because the
// timer was set anew meanwhile, changes nothing.
func (l *Liveness) Rings() (dead bool) {
	if time.Now().Before(l.at) {
		return false
	}
	if l.waiting && l.conn.out.reads.Load() != l.reads {
		l.lives() // without a pong, but it says something
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

// Batch keeps a ping for the next flush where one is due. answered means that a pong
// came, and wanted that a request asks for a ping.
func (l *Liveness) Batch(answered, wanted bool) {
	if answered {
		l.measure()
		l.lives()
	}
	if wanted && l.probed() {
		l.due = true
	}
	if !l.due {
		return
	}
	wait := l.timing.PongTimeout
	if l.wanted {
		behind := time.Duration(l.conn.out.unheard.Load()/slowLink) * time.Second
		wait = min(l.timing.ProbeTimeout, l.timing.PongTimeout) + min(behind, l.timing.PongTimeout)
	}
	l.sole = !l.waiting && l.misses == 0
	l.waiting, l.asked, l.due, l.wanted = true, l.wanted, false, false
	l.reads, l.last = l.conn.out.reads.Load(), time.Now()
	l.reset(wait)
	l.conn.Ping()
}

// measure takes the time of a pong that can only be that of the last ping. It is taken
// when the writer hears of the pong, which is soon after the pong was read.
func (l *Liveness) measure() {
	if l.sole && l.waiting {
		l.roundTrip = time.Since(l.last)
	}
	l.sole = false
}

// RoundTrip is how long the last pong took; 0 where none was measured.
func (l *Liveness) RoundTrip() time.Duration { return l.roundTrip }

// lives notes a sign of life.
func (l *Liveness) lives() {
	l.waiting, l.asked, l.misses = false, false, 0
	if !l.wanted {
		l.reset(l.timing.PingInterval)
	}
}

// probed reports whether a ping that a request asks for goes out now. While the
// answer to another such ping is awaited none does: a second question would not be
// answered sooner. One soon after the last is put off.
func (l *Liveness) probed() bool {
	if l.asked {
		return false
	}
	l.wanted = true
	if rest := minPing - time.Since(l.last); !l.waiting && rest > 0 {
		l.reset(rest)
		return false
	}
	return true
}
