package standing

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"svc.internal/services/verifier/internal/evidence/form"
)

// writer appends the fields of a form. It keeps the first error.
type writer struct {
	b   []byte
	err error
}

func (w *writer) byte(n int)     { w.b = append(w.b, byte(n)) }
func (w *writer) uint16(n int)   { w.b = binary.BigEndian.AppendUint16(w.b, uint16(n)) }
func (w *writer) uint64(n int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(n)) }

func (w *writer) bool(x bool) {
	if x {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *writer) float(x float64) { w.b = form.AppendFloats(w.b, x) }

// time writes microseconds since 1970, and 0 for never.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.uint64(0)
		return
	}
	w.uint64(t.UnixMicro())
}

// text writes a length and bytes.
func (w *writer) text(s string) {
	if len(s) > math.MaxUint16 {
		w.fail("a text of %d bytes", len(s))
		return
	}
	w.uint16(len(s))
	w.b = append(w.b, s...)
}

// part writes a form within this one.
func (w *writer) part(of encoding.BinaryMarshaler) {
	b, err := of.MarshalBinary()
	if err != nil {
		w.fail("%v", err)
		return
	}
	w.text(string(b))
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s", form.ErrForm, fmt.Sprintf(format, args...))
	}
}

// choice writes which of the values x is.
func choice[T comparable](w *writer, x T, of []T) {
	i := slices.Index(of, x)
	if i < 0 {
		w.fail("%v is none of %v", x, of)
	}
	w.byte(i)
}

// reader takes the fields of a form. It keeps the first error and returns zeros behind it.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err != nil {
		return make([]byte, min(n, 8))
	}
	if len(r.rest) < n {
		r.fail("%d bytes, want %d more", len(r.rest), n)
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() int { return int(r.take(1)[0]) }

// uint16 reads a number that is at most high.
func (r *reader) uint16(high int) int {
	n := int(binary.BigEndian.Uint16(r.take(2)))
	if n > high {
		r.fail("%d is above %d", n, high)
		return 0
	}
	return n
}

// uint64 reads a number from 0 to high.
func (r *reader) uint64(high int64) int64 {
	n := int64(binary.BigEndian.Uint64(r.take(8)))
	if n < 0 || n > high {
		r.fail("%d is outside 0 to %d", n, high)
		return 0
	}
	return n
}

func (r *reader) bool() bool { return r.byte() == 1 }

// float reads a number from 0 to high.
func (r *reader) float(high float64) float64 {
	x := math.Float64frombits(binary.BigEndian.Uint64(r.take(8)))
	if !(x >= 0 && x <= high) {
		r.fail("%v is outside 0 to %v", x, high)
		return 0
	}
	return x
}

func (r *reader) time() time.Time {
	n := r.uint64(latest.UnixMicro())
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

func (r *reader) text(high int) string {
	n := r.uint16(high)
	if r.err != nil {
		return ""
	}
	return string(r.take(n))
}

// part reads a form within this one.
func (r *reader) part(into encoding.BinaryUnmarshaler) {
	b := r.text(math.MaxUint16)
	if r.err != nil {
		return
	}
	if err := into.UnmarshalBinary([]byte(b)); err != nil {
		r.err = err
	}
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", form.ErrForm, fmt.Sprintf(format, args...))
	}
}

// chosen reads one of the values.
func chosen[T any](r *reader, of []T) T {
	i := r.byte()
	if i >= len(of) {
		r.fail("choice %d of %d", i, len(of))
		i = 0
	}
	return of[i]
}
