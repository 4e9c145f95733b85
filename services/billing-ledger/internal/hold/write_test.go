package hold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
)

// table has holds, which are written by their pins.
type table struct {
	written   []ids.RequestID
	writes    [][]ids.RequestID
	renewed   []ids.RequestID
	reported  []ids.RequestID
	fails     error
	writeOnly bool // a write that makes no hold
}

func (s *table) Write(_ context.Context, pins []Pin) error {
	if s.fails != nil {
		return s.fails
	}
	var all []ids.RequestID
	for _, p := range pins {
		all = append(all, p.Request)
	}
	s.writes = append(s.writes, all)
	if !s.writeOnly {
		s.written = append(s.written, all...)
	}
	return nil
}

func (s *table) Renew(_ context.Context, all []Renewal) (lapsed, unwritten []ids.RequestID, err error) {
	for _, r := range all {
		switch {
		case slices.Contains(s.written, r.Request):
			s.renewed = append(s.renewed, r.Request)
		case r.Pin != nil:
			unwritten = append(unwritten, r.Request)
		}
	}
	return nil, unwritten, nil
}

func (s *table) Conclude(
	_ context.Context, all []RequestReport,
) (released int, unwritten []ids.RequestID, err error) {
	for _, w := range all {
		switch {
		case slices.Contains(s.reported, w.Request):
		case slices.Contains(s.written, w.Request):
			s.reported = append(s.reported, w.Request)
			released++
		case w.Pin != nil:
			unwritten = append(unwritten, w.Request)
		}
	}
	return released, unwritten, nil
}

var (
	admittedAt = time.UnixMicro(1_790_000_000_000_000)
	known      = ids.RequestID{1}
	missing    = ids.RequestID{2}
	nowhere    = ids.RequestID{3}
)

func pinOf(r ids.RequestID) *Pin { return &Pin{Request: r, AdmittedAt: admittedAt} }

func same(t *testing.T, what string, got, want []ids.RequestID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestARenewalBeforeItsHoldIsWrittenIsKept(t *testing.T) {
	all := []Renewal{{Request: known, Pin: pinOf(known)}, {Request: missing, Pin: pinOf(missing)}, {Request: nowhere}}
	s := &table{written: []ids.RequestID{known}}
	r := &Renewer{Store: s, Pins: s}
	if _, err := r.Renew(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	same(t, "renewed", s.renewed, []ids.RequestID{known, missing})
	if len(s.writes) != 1 {
		t.Fatalf("writes: got %d, want 1", len(s.writes))
	}
	same(t, "holds written", s.writes[0], []ids.RequestID{missing})
	s = &table{written: []ids.RequestID{known}}
	if _, err := (&Renewer{Store: s}).Renew(t.Context(), all); err != nil {
		t.Errorf("without a writer: got %v, want no error", err)
	}
	same(t, "renewed without a writer", s.renewed, []ids.RequestID{known})
	s.fails = errors.New("no database")
	if _, err := (&Renewer{Store: s, Pins: s}).Renew(t.Context(), all); !errors.Is(err, s.fails) {
		t.Errorf("when the hold cannot be written: got %v, want %v, so that the renewal comes again", err, s.fails)
	}
}

func TestAReportBeforeItsHoldIsWrittenIsKept(t *testing.T) {
	late := clock.NewManual(admittedAt.Add(time.Minute))
	for name, c := range map[string]struct {
		clock clock.Clock
		want  [][]ids.RequestID // what is written
	}{
		// After the owner of a slice was killed, holds may be missing that are minutes old.
		"a minute old":                   {late, [][]ids.RequestID{{missing}}},
		"just begun":                     {clock.NewManual(admittedAt.Add(fresh - 1)), [][]ids.RequestID{{known, missing}}},
		"probably written":               {clock.NewManual(admittedAt.Add(fresh)), [][]ids.RequestID{{missing}}},
		"of a database that is ahead":    {clock.NewManual(admittedAt.Add(-time.Hour)), [][]ids.RequestID{{known, missing}}},
		"of an age that nobody can tell": {nil, [][]ids.RequestID{{missing}}},
	} {
		s := &table{written: []ids.RequestID{known}}
		released := 0
		w := &Concluder{Store: s, Pins: s, Clock: c.clock, Observe: func(n int) { released += n }}
		all := []RequestReport{{Request: known, Pin: pinOf(known)}, {Request: missing, Pin: pinOf(missing)},
			{Request: nowhere}}
		if err := w.Conclude(t.Context(), all); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, name+": reports", s.reported, []ids.RequestID{known, missing})
		if released != 2 {
			t.Errorf("%s: holds released: got %d, want 2", name, released)
		}
		if !slices.EqualFunc(s.writes, c.want, slices.Equal) {
			t.Errorf("%s: holds written: got %v, want %v", name, s.writes, c.want)
		}
		if err := w.Conclude(t.Context(), all); err != nil {
			t.Fatalf("%s: again: %v", name, err)
		}
		same(t, name+": reports, sent twice", s.reported, []ids.RequestID{known, missing})
	}
}

func TestAReportWhoseHoldCannotBeWrittenComesAgain(t *testing.T) {
	all := []RequestReport{{Request: missing, Pin: pinOf(missing)}}
	s := &table{fails: errors.New("no database")}
	w := &Concluder{Store: s, Pins: s, Clock: clock.NewManual(admittedAt.Add(time.Minute)), Observe: func(int) {}}
	if err := w.Conclude(t.Context(), all); !errors.Is(err, s.fails) {
		t.Errorf("got %v, want %v", err, s.fails)
	}
	w.Clock = clock.NewManual(admittedAt)
	if err := w.Conclude(t.Context(), all); !errors.Is(err, s.fails) {
		t.Errorf("of a request that began just now: got %v, want %v", err, s.fails)
	}
	// A pin that makes no hold, because its day was cleared, does not come again for ever.
	s = &table{writeOnly: true}
	w.Store, w.Pins = s, s
	if err := w.Conclude(t.Context(), all); err != nil {
		t.Errorf("of a pin that makes no hold: got %v, want no error", err)
	}
	if err := (&Concluder{Store: s, Observe: func(int) {}}).Conclude(t.Context(), all); err != nil {
		t.Errorf("without a writer: got %v, want no error", err)
	}
}
