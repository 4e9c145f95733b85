// Package form writes and reads the canonical binary form of states of verdicts.
//
// An observation is stored with the states before and after it, and a replay compares
// their bits. A state therefore has exactly one form: a byte for its kind, a byte for its
// version, then its fields in a fixed order without padding. A float64 is its IEEE 754
// bits, big-endian, so that not even the last bit is lost. An integer is two or eight
// bytes, big-endian.
//
// A Reader takes bytes from a database that may be damaged. It refuses an unknown kind or
// version, a number outside the bounds that its caller states (NaN, infinities and the
// negative zero are always outside), missing bytes, and bytes behind the end. What a
// Reader accepts, a writer writes again as the same bytes. All errors are ErrForm.
package form

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrForm is the error for bytes that are not the canonical form of a state.
var ErrForm = errors.New("not the canonical form of a state")

// Kind says which state a form holds.
type Kind byte

// The kinds of state.
const (
	Process Kind = iota + 1
	Confirmation
	Recovery
	Pairs
	Window
)

// Start returns the first two bytes of a form, with room for size more bytes.
func Start(kind Kind, version byte, size int) []byte {
	return append(make([]byte, 0, 2+size), byte(kind), version)
}

// AppendFloats appends the bits of numbers.
func AppendFloats(b []byte, numbers ...float64) []byte {
	for _, x := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// AppendUint16 appends an integer of two bytes.
func AppendUint16(b []byte, n uint16) []byte { return binary.BigEndian.AppendUint16(b, n) }

// AppendUint64 appends an integer of eight bytes.
func AppendUint64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// Reader reads a form. It keeps the first error and returns zeros behind it, so that a
// caller asks once, with End.
type Reader struct {
	rest []byte
	err  error
}

// Read begins to read a form of this kind and version.
func Read(b []byte, kind Kind, version byte) *Reader {
	r := &Reader{rest: b}
	head := r.take(2)
	if r.err == nil && (head[0] != byte(kind) || head[1] != version) {
		r.fail("kind %d of version %d, want kind %d of version %d", head[0], head[1], kind, version)
	}
	return r
}

// Float reads a number that is at least low and at most high.
func (r *Reader) Float(low, high float64) float64 {
	b := r.take(8)
	if r.err != nil {
		return 0
	}
	x := math.Float64frombits(binary.BigEndian.Uint64(b))
	if !(x >= low && x <= high) || (x == 0 && math.Signbit(x)) {
		r.fail("%v is outside [%v, %v]", x, low, high)
		return 0
	}
	return x
}

// Floats fills a slice with numbers that are at least low and at most high.
func (r *Reader) Floats(into []float64, low, high float64) {
	for i := range into {
		into[i] = r.Float(low, high)
	}
}

// Uint16 reads an integer of two bytes that is at most high.
func (r *Reader) Uint16(high uint16) uint16 {
	b := r.take(2)
	if r.err != nil {
		return 0
	}
	n := binary.BigEndian.Uint16(b)
	if n > high {
		r.fail("%d is above %d", n, high)
		return 0
	}
	return n
}

// Uint64 reads an integer of eight bytes that is at most high.
func (r *Reader) Uint64(high uint64) uint64 {
	b := r.take(8)
	if r.err != nil {
		return 0
	}
	n := binary.BigEndian.Uint64(b)
	if n > high {
		r.fail("%d is above %d", n, high)
		return 0
	}
	return n
}

// Refuse makes End return an error that says why, because the caller found fields that
// contradict each other.
func (r *Reader) Refuse(why string) { r.fail("%s", why) }

// End returns the first error. Bytes that are left are an error too.
func (r *Reader) End() error {
	if len(r.rest) > 0 {
		r.fail("%d bytes behind the end", len(r.rest))
	}
	return r.err
}

func (r *Reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if len(r.rest) < n {
		r.fail("%d bytes, want %d more", len(r.rest), n)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrForm, fmt.Sprintf(format, args...))
	}
}
