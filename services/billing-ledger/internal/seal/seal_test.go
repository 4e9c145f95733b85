package seal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func TestNoTwoSequencesOfRowsHaveTheSameDigest(t *testing.T) {
	type row struct {
		kind   Kind
		values [][]byte
	}
	a, b := []byte("a"), []byte("b")
	seen := map[[32]byte][]row{}
	for _, rows := range [][]row{
		{}, {{Line, nil}}, {{Entry, nil}}, {{Line, [][]byte{nil}}}, {{Line, [][]byte{{}}}},
		{{Line, [][]byte{a, b}}}, {{Line, [][]byte{b, a}}}, {{Line, [][]byte{[]byte("ab")}}}, {{Line, [][]byte{a, b, nil}}},
		{{Line, [][]byte{a}}, {Line, [][]byte{b}}}, {{Line, [][]byte{b}}, {Line, [][]byte{a}}},
		{{Line, [][]byte{a}}, {Entry, [][]byte{b}}},
		{{Line, [][]byte{a}}, {Line, [][]byte{a}}}, {{Line, [][]byte{a}}},
		{{Line, [][]byte{bytes.Repeat([]byte{0xff}, 4)}}},
	} {
		d := NewDigest()
		for _, r := range rows {
			d.Add(r.kind, r.values)
		}
		sum := d.Day(monday, Version).Digest
		if other, ok := seen[sum]; ok {
			t.Errorf("%v and %v have the same digest", rows, other)
		}
		seen[sum] = rows
	}
}

func FuzzADigestDependsOnWhereValuesEnd(f *testing.F) {
	f.Add([]byte("ab"), []byte("c"), []byte("a"), []byte("bc"))
	f.Add([]byte{}, []byte{1}, []byte{1}, []byte{})
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		first, second := NewDigest(), NewDigest()
		first.Add(Line, [][]byte{a, b})
		second.Add(Line, [][]byte{c, d})
		same := bytes.Equal(a, c) && bytes.Equal(b, d) && (a == nil) == (c == nil) && (b == nil) == (d == nil)
		if (first.Day(monday, Version).Digest == second.Day(monday, Version).Digest) != same {
			t.Errorf("%q %q and %q %q", a, b, c, d)
		}
	})
}

func TestARootDependsOnEverything(t *testing.T) {
	day := func() Day { return Day{Day: monday, Version: Version, Counts: Counts{1, 2, 4}, Digest: [32]byte{7}} }
	first := Chain(day(), Root{1}).Root
	for name, change := range map[string]func(*Day, *Root){
		"day":      func(d *Day, _ *Root) { d.Day = d.Day.AddDate(0, 0, 1) },
		"version":  func(d *Day, _ *Root) { d.Version-- },
		"lines":    func(d *Day, _ *Root) { d.Lines++ },
		"entries":  func(d *Day, _ *Root) { d.Entries++ },
		"postings": func(d *Day, _ *Root) { d.Postings++ },
		"digest":   func(d *Day, _ *Root) { d.Digest[31]++ },
		"previous": func(_ *Day, r *Root) { r[31]++ },
	} {
		d, previous := day(), Root{1}
		change(&d, &previous)
		if Chain(d, previous).Root == first {
			t.Errorf("the root does not depend on the %s", name)
		}
	}
}

// steps is a store that counts what is done to it.
type steps struct {
	due     int
	quiet   int
	failing error
	done    []string
}

func (s *steps) DueDay(context.Context, time.Duration) (time.Time, bool, error) {
	if s.due == 0 {
		return time.Time{}, false, nil
	}
	return monday, true, nil
}

func (s *steps) CloseDay(context.Context, time.Time) (Barrier, error) {
	s.done = append(s.done, "close")
	return 5, s.failing
}

func (s *steps) Passed(_ context.Context, b Barrier) (bool, error) {
	s.done = append(s.done, "await")
	if b != 5 {
		return false, errors.New("another barrier")
	}
	s.quiet--
	return s.quiet < 0, nil
}

func (s *steps) SealDay(context.Context, time.Time) (Day, error) {
	s.done = append(s.done, "seal")
	s.due--
	return Day{Day: monday}, nil
}

func TestADayIsSealedOnlyWhenThoseThatWereUnderWayHaveEnded(t *testing.T) {
	s := &steps{due: 2, quiet: 2}
	sealer := &Sealer{Store: s, Poll: time.Nanosecond}
	shown := 0
	if err := sealer.Due(t.Context(), func(Day) error { shown++; return nil }); err != nil {
		t.Fatal(err)
	}
	want := []string{"close", "await", "await", "await", "seal", "close", "await", "seal"}
	if !slices.Equal(s.done, want) {
		t.Errorf("s.done: got %q, want %q", s.done, want)
	} else if shown != 2 {
		t.Errorf("shown: got %d, want 2", shown)
	}
}

func TestADayThatCannotBeClosedIsNotSealed(t *testing.T) {
	s := &steps{due: 1, failing: errors.New("away")}
	if err := (&Sealer{Store: s, Poll: time.Nanosecond}).Due(t.Context(), nil); !errors.Is(err, s.failing) {
		t.Errorf("error: got the error %v, want %v", err, s.failing)
	}
	if !slices.Equal(s.done, []string{"close"}) {
		t.Errorf("s.done: got %q, want %q", s.done, []string{"close"})
	}
}

func TestSealingEndsWithItsContext(t *testing.T) {
	s := &steps{due: 1, quiet: 1 << 30}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&Sealer{Store: s, Poll: time.Hour}).Due(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error: got the error %v, want %v", err, context.Canceled)
	}
}
