package fill

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
)

// ledger is a list of settled requests, two a page.
type ledger struct {
	lines []earning.Line
	asked []Mark
	fails bool
}

func (l *ledger) Settled(_ context.Context, from Mark, _ time.Duration) (Page, error) {
	if l.fails {
		return Page{}, errors.New("away")
	}
	l.asked = append(l.asked, from)
	at := 0
	if from.Watermark != "" {
		at, _ = strconv.Atoi(from.Watermark)
	}
	end := min(at+2, len(l.lines))
	return Page{Lines: l.lines[at:end], Next: Mark{Since: from.Since, Watermark: strconv.Itoa(end)}, More: end < len(l.lines)}, nil
}

// book has one line for each request.
type book map[ids.RequestID]bool

func (b book) Fill(_ context.Context, lines []earning.Line) (Outcome, error) {
	var out Outcome
	for _, l := range lines {
		if !b[l.RequestID] {
			b[l.RequestID] = true
			out.Filled++
		}
	}
	return out, nil
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
	l, b := &ledger{lines: requests(5)}, book{{15: 2}: true}
	f := &Filler{Ledger: l, Book: b, After: time.Minute}
	if out, err := f.Pass(t.Context(), now); err != nil || out.Filled != 4 {
		t.Fatalf("got %d filled and %v, want 4", out.Filled, err)
	}
	if got, want := l.asked[0], (Mark{Since: now.Add(-lookBack - time.Minute)}); got != want {
		t.Errorf("the first pass began at %+v, want %+v", got, want)
	}
	l.lines = requests(6)
	if out, err := f.Pass(t.Context(), now); err != nil || out.Filled != 1 || len(l.asked) != 4 {
		t.Errorf("got %d filled in %d pages and %v, want one in the fourth", out.Filled, len(l.asked), err)
	}
}

func TestAPassThatFailsLosesNothing(t *testing.T) {
	l, b := &ledger{lines: requests(3), fails: true}, book{}
	f := &Filler{Ledger: l, Book: b}
	if _, err := f.Pass(t.Context(), now); err == nil {
		t.Error("got no error of a ledger that is away")
	}
	l.fails = false
	if out, err := f.Pass(t.Context(), now.Add(2*lookBack)); err != nil || out.Filled != 3 || !l.asked[0].Since.Equal(now.Add(-lookBack)) {
		t.Errorf("got %d filled from %v on and %v, want 3 from where the first pass began", out.Filled, l.asked[0].Since, err)
	}
}

func TestARewindIsMadeOnceAnHour(t *testing.T) {
	l := &ledger{lines: requests(1)}
	f := &Filler{Ledger: l, Book: book{}}
	day := now.Truncate(24 * time.Hour)
	for i, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {59 * time.Minute, false}, {time.Hour, true}} {
		f.Rewind(day, now.Add(c.after))
		if _, err := f.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := l.asked[i] == (Mark{Since: day.AddDate(0, 0, -1)}); got != c.want {
			t.Errorf("after %v: walked from the day before: %v, want %v", c.after, got, c.want)
		}
	}
}
