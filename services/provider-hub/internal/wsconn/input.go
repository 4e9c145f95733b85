package wsconn

import (
	"bytes"
	"io"
	"net"
	"syscall"
)

// input buffers what a connection reads. A connection that waits has no buffer, because many wait
// and few read. It borrows a buffer when something is there, and gives it back when all of that is
// read, or when what is left is less than the reader needs: a peer that sends the beginning of a
// frame and no more would hold it for long. A connection that is no socket of the system borrows
// the buffer before it waits.
type input struct {
	from source
	pool *Pool
	lent *[]byte // nil while nothing is buffered
	r, w int     // what is buffered lies between them
	part []byte  // was buffered when the buffer was given back; a frame's head or control payload at most

	raw syscall.RawConn       // nil for no socket of the system
	try func(fd uintptr) bool // attempt, as a value that is made once
	n   int                   // what the last attempt read
	err error                 // why the last attempt failed
}

// source is what an input reads from.
type source interface {
	io.Reader
	// heard notes that something came that the input has read by itself.
	heard()
}

// readFrom has the input read from a source, whose connection conn is.
func (in *input) readFrom(from source, conn net.Conn, pool *Pool) {
	in.from, in.pool = from, pool
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		in.raw, in.try = raw, in.attempt
	}
}

// Buffered is how many bytes are here.
func (in *input) Buffered() int { return in.w - in.r }

// Peek returns the next n bytes without taking them, at most busyBytes. They are valid
// until the next call.
func (in *input) Peek(n int) ([]byte, error) {
	for in.Buffered() < n {
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	return (*in.lent)[in.r : in.r+n], nil
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
	if in.Buffered() == 0 {
		if len(p) >= busyBytes {
			in.giveBack()
			return in.from.Read(p)
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, (*in.lent)[in.r:in.w])
	in.r += n
	return n, nil
}

// maxEmpty bounds the reads in a row that bring neither bytes nor an error.
const maxEmpty = 100

// fill reads what is there behind the bytes that are buffered.
func (in *input) fill() error {
	if in.raw != nil {
		if in.Buffered() > 0 {
			in.part = bytes.Clone((*in.lent)[in.r:in.w])
		}
		in.giveBack()
		return in.await()
	}
	if in.lent == nil {
		in.lent = in.pool.inputs.Get().(*[]byte)
	}
	in.w = copy(*in.lent, (*in.lent)[in.r:in.w])
	in.r = 0
	for range maxEmpty {
		n, err := in.from.Read((*in.lent)[in.w:])
		in.w += n
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (in *input) giveBack() {
	if in.lent != nil {
		in.pool.inputs.Put(in.lent)
		in.lent = nil
	}
	in.r, in.w = 0, 0
}

// await waits until something is there and reads it.
func (in *input) await() error {
	if err := in.raw.Read(in.try); err != nil {
		return err
	}
	switch {
	case in.err != nil:
		return in.err
	case in.n == 0:
		return io.EOF
	}
	in.from.heard()
	in.w = len(in.part) + in.n
	in.part = nil
	return nil
}

// attempt reads what is there into a buffer that is borrowed for it. It returns false, and keeps no
// buffer, while nothing is there.
func (in *input) attempt(fd uintptr) bool {
	in.lent = in.pool.inputs.Get().(*[]byte)
	kept := copy(*in.lent, in.part)
	for {
		in.n, in.err = syscall.Read(int(fd), (*in.lent)[kept:])
		if in.err != syscall.EINTR { //nolint:errorlint // a system call's error is not wrapped
			break
		}
	}
	if in.err == nil && in.n > 0 {
		return true
	}
	in.giveBack()
	return in.err != syscall.EAGAIN //nolint:errorlint // a system call's error is not wrapped
}
