package wsconn

import "io"

// idleBytes is the buffer that a connection keeps for reading.
const idleBytes = 1 << 10

// input buffers what a connection reads. An idle connection keeps a small buffer. One
// whose buffer was filled by a read borrows a larger one, because more is likely to wait,
// and gives it back when a read brought no more than the small one takes.
type input struct {
	from io.Reader
	pool *Pool
	own  []byte
	lent *[]byte // nil while own is used
	r, w int     // what is buffered lies between them
	full bool    // the last read filled the buffer
	few  bool    // the last read brought no more than own takes
}

func newInput(from io.Reader, pool *Pool) input {
	return input{from: from, pool: pool, own: make([]byte, idleBytes)}
}

func (in *input) buf() []byte {
	if in.lent != nil {
		return *in.lent
	}
	return in.own
}

// Buffered is how many bytes are here.
func (in *input) Buffered() int { return in.w - in.r }

// Peek returns the next n bytes without taking them, at most idleBytes. They are valid
// until the next call.
func (in *input) Peek(n int) ([]byte, error) {
	for in.Buffered() < n {
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	return in.buf()[in.r : in.r+n], nil
}

// Discard takes n bytes away.
func (in *input) Discard(n int) (int, error) {
	for gone := 0; ; {
		part := min(n-gone, in.Buffered())
		in.r += part
		if gone += part; gone == n {
			return n, nil
		}
		if err := in.fill(); err != nil {
			return gone, err
		}
	}
}

// Read implements io.Reader. It reads past the buffer where p is at least as large.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if in.Buffered() == 0 && len(p) >= len(in.buf()) {
		n, err := in.from.Read(p)
		// p ends where the message ends, so that a read that fills it says nothing of what waits.
		in.full, in.few = false, n <= len(in.own)
		return n, err
	}
	if in.Buffered() == 0 {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf()[in.r:in.w])
	in.r += n
	return n, nil
}

// maxEmpty bounds the reads in a row that bring neither bytes nor an error.
const maxEmpty = 100

// fill reads what is there behind the bytes that are buffered.
func (in *input) fill() error {
	in.fit()
	for range maxEmpty {
		space := in.buf()[in.w:]
		n, err := in.from.Read(space)
		in.w += n
		in.full, in.few = n == len(space), n <= len(in.own)
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// fit chooses the buffer for the next read, and moves what is buffered to its beginning.
func (in *input) fit() {
	before := in.buf()[in.r:in.w]
	switch {
	case in.lent == nil && in.full:
		in.lent = in.pool.inputs.Get().(*[]byte)
	case in.lent != nil && in.few && len(before) == 0:
		in.pool.inputs.Put(in.lent)
		in.lent = nil
	}
	in.w = copy(in.buf(), before)
	in.r = 0
}
