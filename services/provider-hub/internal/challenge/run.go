package challenge

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/session"
)

// Bounds of an answer, in bytes.
const (
	// MaxChunk bounds a chunk.
	MaxChunk = 1 << 20
	// MaxAnswer bounds all chunks together, and MaxChunks their number.
	MaxAnswer = 16 << 20
	MaxChunks = 8192
	// singles is how many chunks are passed on as they come. Later bytes are joined into
	// chunks of MaxChunk and a rest, which are no more than MaxAnswer/MaxChunk.
	singles = MaxChunks - MaxAnswer/MaxChunk
)

const (
	// stallProbe is how long a challenge goes without data before the agent is pinged, as
	// for a request.
	stallProbe = 2 * time.Second
	// slowCaller is how long a chunk must wait for the caller before a timeout counts as the
	// caller's fault, and how long the chunks of one piece before an overflow does.
	slowCaller = time.Second
	// maxError bounds Finish.Error, in bytes.
	maxError = 1 << 10
)

// run is one challenge under way. It belongs to its caller's goroutine.
type run struct {
	clock  clock.Clock
	abort  <-chan struct{} // closed when challenges must end at once
	order  *Order
	caller Caller
	stream *session.Stream
	held   *holding

	passed, chunks int // bytes and chunks that the caller was given, joined ones excepted
	lastData       time.Time
	// joined are bytes that wait to be a chunk of MaxChunk, and joinedAt is the time of the
	// last of them.
	joined   []byte
	joinedAt time.Duration
	// blocked is how long the caller took since the last piece was taken, and slowest how
	// long it took for the chunk that it took longest for.
	blocked, slowest time.Duration
}

// wait passes the answer on until the challenge has ended. The stream is closed at the
// timeout even while the caller takes nothing, so that the slot does not wait for it.
func (c *run) wait(ctx context.Context) (*Finish, error) {
	expired := make(chan struct{})
	timeout := time.AfterFunc(c.order.Timeout, func() {
		c.stream.Close(true)
		close(expired)
	})
	defer timeout.Stop()
	stall := time.NewTimer(stallProbe)
	defer stall.Stop()
	for {
		var f *Finish
		var err error
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.abort:
			f = c.stopped(HubStopped, "the hub stops")
		case <-expired:
			f, err = c.late()
		case <-c.stream.Ready():
			f, err = c.take()
		case <-stall.C:
			stall.Reset(c.probe())
		}
		if err == nil && f != nil {
			err = c.flush()
		}
		switch {
		case err != nil:
			return nil, err
		case f != nil:
			return f, nil
		}
	}
}

// probe pings an agent that has been silent, and returns when to look again.
func (c *run) probe() time.Duration {
	idle := c.clock.Now().Sub(c.lastData)
	if idle < stallProbe {
		return stallProbe - max(idle, 0)
	}
	c.stream.Probe()
	return stallProbe
}

// take passes on what has come.
func (c *run) take() (*Finish, error) {
	piece, parts, end, lost := c.stream.TakeParts()
	before := c.blocked
	c.blocked = 0
	if !c.held.take(len(piece)) {
		return nil, tooMany("this hub has no room for the answer")
	}
	f, err := c.pass(piece, parts)
	c.stream.Release(len(piece), piece)
	c.held.give(len(piece))
	switch {
	case f != nil || err != nil:
		return f, err
	case end != nil:
		return c.ended(end), nil
	case lost != nil:
		return c.broke(lost, before)
	}
	return nil, nil
}

// pass gives the caller the parts of a piece, each in chunks.
func (c *run) pass(piece []byte, parts []session.Part) (*Finish, error) {
	if len(piece) == 0 {
		return nil, nil
	}
	c.lastData = c.clock.Now()
	if c.passed += len(piece); c.passed > MaxAnswer {
		return c.stopped(Invalid, "the answer has more than 16 MiB"), nil
	}
	start := 0
	for _, part := range parts {
		for start < part.End {
			n := min(part.End-start, MaxChunk)
			if err := c.chunk(piece[start:start+n], part.After); err != nil {
				return nil, err
			}
			start += n
		}
	}
	return nil, nil
}

// chunk passes on bytes of one time, at most MaxChunk: as a chunk, or joined with others
// where there were many chunks.
func (c *run) chunk(data []byte, after time.Duration) error {
	if c.chunks < singles {
		c.chunks++
		return c.say(data, after)
	}
	if c.joined == nil {
		if !c.held.take(MaxChunk) {
			return tooMany("this hub has no room for the answer")
		}
		c.joined = make([]byte, 0, MaxChunk)
	}
	n := min(len(data), MaxChunk-len(c.joined))
	c.joined, c.joinedAt = append(c.joined, data[:n]...), after
	if len(c.joined) < MaxChunk {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.joined = append(c.joined, data[n:]...)
	return nil
}

// flush gives the caller the joined bytes.
func (c *run) flush() error {
	if len(c.joined) == 0 {
		return nil
	}
	chunk := c.joined
	c.joined = c.joined[:0]
	return c.say(chunk, c.joinedAt)
}

// say gives the caller a chunk.
func (c *run) say(chunk []byte, after time.Duration) error {
	began := c.clock.Now()
	err := c.caller.Chunk(chunk, after)
	took := c.clock.Now().Sub(began)
	c.blocked += took
	c.slowest = max(c.slowest, took)
	return err
}

// ended judges the agent's last word. A task has no HTTP status.
func (c *run) ended(end *session.End) *Finish {
	f := c.finish(Answered, end.Error)
	f.Status = end.Status
	switch {
	case c.order.Task != nil:
		if !end.Complete {
			f.End = Refused
		}
	case c.stream.Times().Early && engineAnswered(end):
		f.End, f.Error = Invalid, "the answer began before the whole challenge was sent"
	case !engineAnswered(end):
		f.End = Refused
		if end.Busy && f.Error == "" {
			f.Error = "the provider has no free slot"
		}
	case !end.Complete:
		f.End = Invalid
		if f.Error == "" {
			f.Error = "the answer is not whole"
		}
	}
	return f
}

// engineAnswered reports whether an end says that the engine did what was asked of it.
func engineAnswered(end *session.End) bool {
	return !end.Busy && end.Status >= 200 && end.Status <= 299
}

// broke judges a stream that ended without the agent's last word.
func (c *run) broke(lost error, blocked time.Duration) (*Finish, error) {
	switch {
	case errors.Is(lost, session.ErrLost):
		return c.finish(Lost, lost.Error()), nil
	case errors.Is(lost, session.ErrNoRoom):
		return nil, tooMany("this hub has no room for the answer")
	case errors.Is(lost, session.ErrBehind) && blocked >= slowCaller:
		return nil, tooMany("the answer was not taken in time")
	}
	return c.finish(Invalid, lost.Error()), nil
}

// late judges a challenge whose time is over. The time that the caller took does not count
// against the provider.
func (c *run) late() (*Finish, error) {
	if c.slowest >= slowCaller {
		return nil, tooMany("the answer was not taken in time")
	}
	return c.stopped(TimedOut, "no whole answer came in time"), nil
}

// stopped is the end of a challenge that the hub ends.
func (c *run) stopped(end End, why string) *Finish {
	f := c.finish(end, why)
	if !f.SentAt.IsZero() {
		f.Took = max(f.Took, c.clock.Now().Sub(f.SentAt))
	}
	return f
}

func (c *run) finish(end End, why string) *Finish {
	at := c.stream.Times()
	return &Finish{End: end, Error: cut(why, maxError), SentAt: at.Begun, Written: at.Written, Took: at.Took}
}

// cut cuts a text to a number of bytes, between two characters.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}
