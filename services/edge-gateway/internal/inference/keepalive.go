package inference

import "time"

// beat keeps the client of a stream alive while its session waits for a hub. It
// fires on a goroutine of its own, which may write only while the session lends
// it the dispatch that it waits for: all else of a session belongs to the
// session's goroutine.
type beat struct {
	out   *output
	sure  func() bool // what was gathered is paid for
	every time.Duration
	timer *time.Timer
	lent  chan *dispatch // holds the dispatch while the session waits
	ended chan struct{}
}

// startBeat begins to beat after a time. The session stops it.
func startBeat(out *output, sure func() bool, first, every time.Duration) *beat {
	b := &beat{out: out, sure: sure, every: every, lent: make(chan *dispatch, 1), ended: make(chan struct{})}
	b.timer = time.AfterFunc(max(0, first), b.fire)
	return b
}

func (b *beat) lend(d *dispatch) { b.lent <- d }

// reclaim waits for a comment that is just being written.
func (b *beat) reclaim() { <-b.lent }

// stop ends the beat of a session that lends nothing any more.
func (b *beat) stop() {
	close(b.ended)
	b.timer.Stop()
}

// fire writes a comment, unless something was written of late. A client that
// cannot be written to has left.
func (b *beat) fire() {
	var d *dispatch
	select {
	case d = <-b.lent:
	case <-b.ended:
		return
	}
	defer b.lend(d)
	if quiet := time.Since(b.out.wrote); quiet < b.every {
		b.timer.Reset(b.every - quiet)
		return
	}
	if b.out.keepAlive(b.sure()) != nil {
		d.giveUp(clientLeft)
		return
	}
	b.timer.Reset(b.every)
}
