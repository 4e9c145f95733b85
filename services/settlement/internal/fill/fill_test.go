package fill

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/reconcile"
)

// ledger is a list of settled requests, two a page.
type ledger struct {
	lines []earning.Line
	bad   []ids.RequestID // on every page
	asked []Cursor
	fails bool
}

func (l *ledger) Settled(_ context.Context, from Cursor, _ time.Duration) (Page, error) {
	if l.fails {
		return Page{}, errors.New("away")
	}
	l.asked = append(l.asked, from)
	at := 0
	if from.Watermark != "" {
		at, _ = strconv.Atoi(from.Watermark)
	}
	end := min(at+2, len(l.lines))
	return Page{Lines: l.lines[at:end], Bad: l.bad, Next: Cursor{Since: from.Since, Watermark: strconv.Itoa(end)},
		More: end < len(l.lines)}, nil
}

// book has one line for each request; the value of an excluded line is false.
type book struct {
	lines map[ids.RequestID]bool
	fails bool
}

func newBook(stand ...ids.RequestID) *book {
	b := &book{lines: map[ids.RequestID]bool{}}
	for _, id := range stand {
		b.lines[id] = true
	}
	return b
}

func (b *book) Fill(_ context.Context, lines []earning.Line) (Outcome, error) {
	var out Outcome
	for _, l := range lines {
		counts, stands := b.lines[l.RequestID]
		switch {
		case !stands:
			out.Filled++
		case !counts:
			out.Corrected = append(out.Corrected, l.RequestID)
		}
		b.lines[l.RequestID] = true
	}
	return out, nil
}

// Suspects takes all lines for lines of the slots.
func (b *book) Suspects(
	_ context.Context, slots []reconcile.Slot, after ids.RequestID, limit int,
) ([]ids.RequestID, error) {
	if len(slots) == 0 {
		return nil, errors.New("of no slots")
	}
	var suspects []ids.RequestID
	for id, counts := range b.lines {
		if counts && compare(id, after) > 0 {
			suspects = append(suspects, id)
		}
	}
	slices.SortFunc(suspects, compare)
	return suspects[:min(len(suspects), limit)], nil
}

func (b *book) Exclude(_ context.Context, requests []ids.RequestID) ([]ids.RequestID, error) {
	if b.fails {
		return nil, errors.New("away")
	}
	for _, id := range requests {
		b.lines[id] = false
	}
	return requests, nil
}

func requests(n int) []earning.Line {
	lines := make([]earning.Line, n)
	for i := range lines {
		lines[i].RequestID = ids.RequestID{15: byte(i + 1)}
	}
	return lines
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestAPassFillsEachGapOnceAndGoesOnWhereItEnded(t *testing.T) {
	l, b := &ledger{lines: requests(5)}, newBook(ids.RequestID{15: 2})
	f := &Filler{Ledger: l, Store: b, After: time.Minute}
	if out, err := f.Pass(t.Context(), now); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if out.Filled != 4 {
		t.Fatalf("got %d filled, want 4", out.Filled)
	}
	if got, want := l.asked[0], (Cursor{Since: now.Add(-lookBack - time.Minute)}); got != want {
		t.Errorf("the first pass began: got %+v, want %+v", got, want)
	}
	l.lines = requests(6)
	if out, err := f.Pass(t.Context(), now); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if out.Filled != 1 {
		t.Errorf("got %d filled, want one", out.Filled)
	} else if len(l.asked) != 4 {
		t.Errorf("got %d pages, want 4", len(l.asked))
	}
}

func TestAPassThatFailsLosesNothing(t *testing.T) {
	l, b := &ledger{lines: requests(3), fails: true}, newBook()
	f := &Filler{Ledger: l, Store: b}
	if _, err := f.Pass(t.Context(), now); err == nil {
		t.Error("got no error of a ledger that is away")
	}
	l.fails = false
	if out, err := f.Pass(t.Context(), now.Add(2*lookBack)); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if out.Filled != 3 {
		t.Errorf("got %d filled, want 3", out.Filled)
	} else if !l.asked[0].Since.Equal(now.Add(-lookBack)) {
		t.Errorf("got lines from %v on, want from where the first pass began", l.asked[0].Since)
	}
}
