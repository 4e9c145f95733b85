package form_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"svc.internal/services/verifier/internal/evidence/form"
)

func TestAFormIsReadBackToTheBit(t *testing.T) {
	t.Parallel()
	b := form.Start(form.Pairs, 3, 26)
	b = form.AppendFloats(b, 0, math.Nextafter(1, 2))
	b = form.AppendUint64(form.AppendUint16(b, 511), 1<<40)
	r := form.Read(b, form.Pairs, 3)
	var floats [2]float64
	r.Floats(floats[:], 0, 2)
	if want := [2]float64{0, math.Nextafter(1, 2)}; floats != want {
		t.Errorf("floats: got %v, want %v", floats, want)
	}
	if got := r.Uint16(511); got != 511 {
		t.Errorf("two bytes: got %d, want 511", got)
	}
	if got := r.Uint64(1 << 40); got != 1<<40 {
		t.Errorf("eight bytes: got %d, want %d", got, uint64(1)<<40)
	}
	if err := r.End(); err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}

func TestOtherNumbersAreRefused(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), -1, math.Copysign(0, -1), 2.0000001, -math.SmallestNonzeroFloat64,
	} {
		r := form.Read(form.AppendFloats(form.Start(form.Process, 1, 8), x), form.Process, 1)
		if got := r.Float(0, 2); got != 0 {
			t.Errorf("%v: got %v, want 0", x, got)
		}
		if err := r.End(); !errors.Is(err, form.ErrForm) {
			t.Errorf("%v: got the error %v, want %v", x, err, form.ErrForm)
		}
	}
}

func TestDamagedFormsAreRefused(t *testing.T) {
	t.Parallel()
	whole := form.AppendUint64(form.AppendUint16(form.Start(form.Window, 1, 10), 7), 8)
	read := func(b []byte) error {
		r := form.Read(b, form.Window, 1)
		r.Uint16(7)
		r.Uint64(8)
		return r.End()
	}
	if err := read(whole); err != nil {
		t.Fatalf("the whole form: got the error %v, want none", err)
	}
	for n := range len(whole) {
		if err := read(whole[:n]); !errors.Is(err, form.ErrForm) {
			t.Errorf("%d bytes: got the error %v, want %v", n, err, form.ErrForm)
		}
	}
	for i := range 4 {
		other := bytes.Clone(whole)
		other[i] += 8
		if err := read(other); !errors.Is(err, form.ErrForm) {
			t.Errorf("byte %d altered: got the error %v, want %v", i, err, form.ErrForm)
		}
	}
	if err := read(append(bytes.Clone(whole), 0)); !errors.Is(err, form.ErrForm) {
		t.Errorf("a byte behind the end: got the error %v, want %v", err, form.ErrForm)
	}
	r := form.Read(whole[:2], form.Window, 1)
	r.Refuse("fields that contradict each other")
	if err := r.End(); !errors.Is(err, form.ErrForm) {
		t.Errorf("refused by the caller: got the error %v, want %v", err, form.ErrForm)
	}
}
