package session

import "time"

// maxParts bounds the parts of the bytes that wait to be taken. Bytes that come after so
// many parts belong to the last part, which then has their time.
const maxParts = 4096

// Part is a part of the bytes of a challenge that were taken.
type Part struct {
	// End is where the part ends. It begins where the part before ends.
	End int
	// After is how long after the challenge began to be written the part was read.
	After time.Duration
}

// Times are the times of a challenge.
type Times struct {
	// Begun is when the challenge began to be written; zero where it was not. It is read
	// before the write, because an agent decides how soon the rest is written: by the
	// credit that it grants, and by how fast it reads its socket.
	Begun time.Time
	// Written is how long after Begun the socket had taken the last byte; 0 where it had
	// not.
	Written time.Duration
	// Took is how long after Begun the challenge ended; 0 before that.
	Took time.Duration
	// Early reports that the answer, or its end, came before the last byte was sent, so
	// that it cannot be the answer to the whole challenge.
	Early bool
}

// timing is when the bytes of a challenge were written and read. It is nil for a request
// that is no challenge.
type timing struct {
	begun, written, ended time.Time // zero before
	sent                  bool      // the last byte is in a batch that the writer took
	early                 bool
	parts                 []partAt // of the bytes that wait to be taken
}

type partAt struct {
	end int
	at  time.Time
}

// begins notes, where there is a challenge, that its first byte is in the batch that the
// writer takes.
func (t *timing) begins(now time.Time) {
	if t != nil {
		t.begun = now
	}
}

// came notes that the bytes up to end, of the bytes that wait, were read.
func (t *timing) came(end int, now time.Time) {
	t.early = t.early || !t.sent
	part := partAt{end: end, at: now}
	if n := len(t.parts); n == maxParts {
		t.parts[n-1] = part
		return
	}
	t.parts = append(t.parts, part)
}

// answered notes the agent's last word, where there is a challenge.
func (t *timing) answered() {
	if t != nil {
		t.early = t.early || !t.sent
	}
}

// over notes the end, where there is a challenge.
func (t *timing) over(now time.Time) {
	if t != nil && t.ended.IsZero() {
		t.ended = now
	}
}

// taken returns the parts of the bytes that are taken now.
func (t *timing) taken() []Part {
	parts := make([]Part, len(t.parts))
	for i, p := range t.parts {
		parts[i] = Part{End: p.end, After: t.since(p.at)}
	}
	t.parts = nil
	return parts
}

// since is how long after the beginning a time was; 0 for a challenge that did not begin,
// and for a time that is not known.
func (t *timing) since(at time.Time) time.Duration {
	if t.begun.IsZero() || at.IsZero() {
		return 0
	}
	return max(0, at.Sub(t.begun))
}

// times are the times by now.
func (t *timing) times() Times {
	return Times{Begun: t.begun, Written: t.since(t.written), Took: t.since(t.ended), Early: t.early}
}
