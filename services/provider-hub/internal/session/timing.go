package session

import "time"

// maxParts bounds the parts of the bytes that wait to be taken. Bytes that come after so
// many parts belong to the last part, which then has their time.
const maxParts = 4096

// Part is a part of the bytes of a challenge that were taken.
type Part struct {
	// End is where the part ends. It begins where the part before ends.
	End int
	// After is how long after the last byte of the challenge was written the part was read.
	After time.Duration
}

// timing is when the bytes of a challenge were written and read. It is nil for a request
// that is no challenge.
type timing struct {
	written, ended time.Time // zero before
	parts          []partAt  // of the bytes that wait to be taken
}

type partAt struct {
	end int
	at  time.Time
}

// came notes that the bytes up to end, of the bytes that wait, were read.
func (t *timing) came(end int, now time.Time) {
	part := partAt{end: end, at: now}
	if n := len(t.parts); n == maxParts {
		t.parts[n-1] = part
		return
	}
	t.parts = append(t.parts, part)
}

// over notes the end, where there is a challenge. A challenge that ended before its last byte was written counts its
// times from its end, because no more of it is written.
func (t *timing) over(now time.Time) {
	if t == nil || !t.ended.IsZero() {
		return
	}
	t.ended = now
	if t.written.IsZero() {
		t.written = now
	}
}

// taken returns the parts of the bytes that are taken now.
func (t *timing) taken() []Part {
	parts := make([]Part, len(t.parts))
	for i, p := range t.parts {
		parts[i] = Part{End: p.end, After: max(0, p.at.Sub(t.written))}
	}
	t.parts = nil
	return parts
}

// took is how long after the last byte was written the challenge ended; 0 before that.
func (t *timing) took() time.Duration {
	if t.ended.IsZero() {
		return 0
	}
	return max(0, t.ended.Sub(t.written))
}
