package evidence_test

import (
	"bytes"
	"encoding"
	"errors"
	"math"
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/form"
	"svc.internal/services/verifier/internal/evidence/years"
)

// state is what every state of the package can do.
type state interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// fresh returns an empty state of the same type.
func fresh(s state) state {
	switch s.(type) {
	case *evidence.Process:
		return new(evidence.Process)
	case *evidence.Confirmation:
		return new(evidence.Confirmation)
	case *evidence.Recovery:
		return new(evidence.Recovery)
	default:
		return new(evidence.Pairs)
	}
}

func roundTrip(t testing.TB, s state) {
	t.Helper()
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	back := fresh(s)
	if err := back.UnmarshalBinary(b); err != nil {
		t.Fatalf("%T: %v", s, err)
	}
	again, err := back.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, b) {
		t.Errorf("%T: got the form %x, want %x", s, again, b)
	}
}

// moved returns one state of each type after some observations.
func moved(t testing.TB) []state {
	t.Helper()
	s := years.NewSource(3, 4)
	var p evidence.Process
	c, r := evidence.NewConfirmation(), evidence.NewRecovery(evidence.Greedy)
	var f evidence.Pairs
	for range 60 {
		o := anyObservation(t, s)
		observe(t, &p, o)
		confirm(t, &c, o)
		observe(t, &r, o)
		f.Observe(s.Below(.4), s.Below(.6))
	}
	return []state{&p, &c, &r, &f}
}

func TestStatesAreReadBackToTheBit(t *testing.T) {
	t.Parallel()
	for _, s := range moved(t) {
		roundTrip(t, s)
	}
	var p, back evidence.Process
	observe(t, &p, judged(t, evidence.Files, true))
	b, _ := p.MarshalBinary()
	if err := back.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if back != p {
		t.Errorf("got %v, want %v", back, p)
	}
}

func TestAConfirmationIsReadBackWithItsOutcome(t *testing.T) {
	t.Parallel()
	for _, exceeded := range []bool{true, false} {
		c := evidence.NewConfirmation()
		for confirm(t, &c, judged(t, evidence.Greedy, exceeded)) == evidence.Open {
			continue
		}
		b, _ := c.MarshalBinary()
		var back evidence.Confirmation
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if back != c {
			t.Errorf("exceeded %v: got %v, want %v", exceeded, back, c)
		}
	}
}

func TestDamagedStatesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	for _, s := range moved(t) {
		b, _ := s.MarshalBinary()
		for n := range len(b) {
			refuse(t, s, b[:n])
		}
		refuse(t, s, append(bytes.Clone(b), 0))
		for _, x := range []float64{math.NaN(), math.Inf(1), -1, math.Copysign(0, -1), 0x1p101} {
			bad := bytes.Clone(b)
			last := form.AppendFloats(nil, x)
			copy(bad[len(bad)-8:], last)
			refuse(t, s, bad)
		}
		bad := bytes.Clone(b)
		bad[1]++
		refuse(t, s, bad)
	}
}

func refuse(t *testing.T, s state, bad []byte) {
	t.Helper()
	before, _ := s.MarshalBinary()
	if err := s.UnmarshalBinary(bad); !errors.Is(err, form.ErrForm) {
		t.Errorf("%T from %d bytes: got the error %v, want %v", s, len(bad), err, form.ErrForm)
	}
	if after, _ := s.MarshalBinary(); !bytes.Equal(after, before) {
		t.Errorf("%T: a refused form changed the state", s)
	}
}

// What a state reads it writes again byte for byte, and everything that it computes from
// it is a number.
func FuzzStatesHaveOneForm(f *testing.F) {
	for _, s := range moved(f) {
		b, _ := s.MarshalBinary()
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range []state{
			new(evidence.Process), new(evidence.Confirmation), new(evidence.Recovery), new(evidence.Pairs),
		} {
			if s.UnmarshalBinary(b) != nil {
				continue
			}
			again, err := s.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, b) {
				t.Fatalf("%T: got the form %x, want %x", s, again, b)
			}
			if x := value(s); !(x >= 0 && x <= math.MaxFloat64) {
				t.Fatalf("%T: got the value %v", s, x)
			}
		}
	})
}

func value(s state) float64 {
	o, _ := evidence.Judged(evidence.Greedy, true)
	switch s := s.(type) {
	case *evidence.Process:
		_ = s.Observe(o)
		return s.M()
	case *evidence.Confirmation:
		_, _ = s.Observe(o)
		return s.E()
	case *evidence.Recovery:
		_ = s.Observe(o)
		return s.Ratio(evidence.Greedy)
	case *evidence.Pairs:
		s.Observe(false, true)
		return s.M()
	}
	return math.NaN()
}
