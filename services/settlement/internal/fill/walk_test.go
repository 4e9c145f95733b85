package fill

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/reconcile"
)

var (
	today     = now.Truncate(day)
	yesterday = today.Add(-day)
)

func slot(d time.Time, provider byte) reconcile.Slot {
	return reconcile.Slot{Day: d, ProviderID: ids.ProviderID{15: provider}}
}

// differs is a slot with so many lines and accruals, each paying one.
func differs(s reconcile.Slot, lines, accruals int64) []reconcile.Difference {
	return []reconcile.Difference{{Slot: s,
		Lines:    reconcile.Sum{Payout: money.NanoUSD(lines), Requests: lines},
		Accruals: reconcile.Sum{Payout: money.NanoUSD(accruals), Requests: accruals}}}
}

// began returns where a walk back began since the last question.
func (l *ledger) began() (at []time.Time) {
	for _, m := range l.asked {
		if m.Watermark == "" {
			at = append(at, m.Since)
		}
	}
	l.asked = nil
	return at
}

// many are as many requests, also above 255.
func many(n int) []earning.Line {
	lines := make([]earning.Line, n)
	for i := range lines {
		lines[i].RequestID = ids.RequestID{14: byte((i + 1) >> 8), 15: byte(i + 1)}
	}
	return lines
}

// A difference that nothing can mend must not keep the walk from the present.
func TestTheSameDifferenceIsWalkedForOnce(t *testing.T) {
	l := &ledger{lines: requests(3)}
	f := &Filler{Ledger: l, Store: newBook(), After: time.Minute}
	for i, c := range []struct {
		after      time.Duration
		difference []reconcile.Difference
		want       time.Time
	}{
		{0, nil, now.Add(-lookBack - time.Minute)}, // where the process starts
		{time.Minute, differs(slot(today, 1), 1, 2), yesterday},
		{2 * time.Minute, differs(slot(today, 1), 1, 2), time.Time{}},
		{3 * time.Minute, differs(slot(yesterday, 2), 1, 2), time.Time{}}, // within the hour
		{61 * time.Minute, differs(slot(yesterday, 2), 1, 2), yesterday.Add(-day)},
		{122 * time.Minute, differs(slot(yesterday, 2), 1, 2), time.Time{}},
		{123 * time.Minute, differs(slot(yesterday, 2), 1, 3), yesterday.Add(-day)}, // other sums
		{184 * time.Minute, differs(slot(today, 2), 3, 2), time.Time{}},             // usage is under way
		{185 * time.Minute, differs(slot(today, 2), 2, 2), yesterday},               // as many, not as much
	} {
		at := now.Add(c.after)
		f.Differ(c.difference, at)
		if _, err := f.Pass(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		got := l.began()
		if c.want.IsZero() != (len(got) == 0) {
			t.Errorf("step %d: walked: len(got) == 0: got %t, want %t", i, len(got) == 0, c.want.IsZero())
		} else if len(got) > 0 && !got[0].Equal(c.want) {
			t.Errorf("step %d: walked: got[0]: got %v, want %v, where len(got) > 0", i, got[0], c.want)
		}
	}
}

func TestTheWalkForwardReachesThePresentBesideAnyWalkBack(t *testing.T) {
	const pages = 2*MaxPages + 7
	l, b := &ledger{lines: many(2 * pages)}, newBook()
	f := &Filler{Ledger: l, Store: b, cursor: Cursor{Watermark: "0"}}
	f.Differ(differs(slot(yesterday, 1), 1, 2), now)
	for n := 1; f.walk != nil; n++ {
		l.asked = nil
		if _, err := f.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if len(l.asked) > MaxPages {
			t.Fatalf("pass: len(l.asked): got %d, want at most %d", len(l.asked), MaxPages)
		}
		if n > 10 {
			t.Fatalf("pass: got %d, want at most 10", n)
		}
		// From the third pass on, all that is new is seen at once.
		if present := f.cursor.Watermark == strconv.Itoa(len(l.lines)); present != (n >= 3) {
			t.Errorf("pass %d came to %s of %d: got %t, want %t", n, f.cursor.Watermark, len(l.lines), present, n >= 3)
		}
		if n >= 3 {
			l.lines = many(len(l.lines) + 2)
		}
	}
}

func TestALineWithoutARequestInTheLedgerIsHeldOutUntilItHasOne(t *testing.T) {
	invented, late, bad := ids.RequestID{14: 1, 15: 1}, ids.RequestID{14: 1, 15: 2}, ids.RequestID{14: 1, 15: 3}
	l, b := &ledger{lines: requests(5), bad: []ids.RequestID{bad}}, newBook(invented, late, bad)
	for _, line := range l.lines {
		b.lines[line.RequestID] = true
	}
	f := &Filler{Ledger: l, Store: b, After: 2 * time.Minute}
	step := func(d time.Time, at time.Time) []ids.RequestID {
		t.Helper()
		f.Differ(differs(slot(d, 1), 8, 6), at)
		out, err := f.Pass(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return out.Excluded
	}
	midnight := today.Add(day)
	for _, at := range []time.Time{now, now.Add(time.Hour), midnight.Add(119 * time.Second)} {
		if got := step(today, at); len(got) > 0 {
			t.Fatalf("held out %v at %v, before the day was over: got %d, want 0", got, at, len(got))
		}
	}
	if got := step(today, midnight.Add(2*time.Minute)); !slices.Equal(got, []ids.RequestID{invented, late}) {
		t.Fatalf("held out: got %v, want the two that the ledger does not have", got)
	}
	// The ledger settles one of them after all.
	l.lines = append(l.lines, requests(1)[0])
	l.lines[5].RequestID = late
	out, err := f.Pass(t.Context(), midnight.Add(day))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !slices.Equal(out.Corrected, []ids.RequestID{late}) {
		t.Errorf("got %+v corrected, want only the late one", out.Corrected)
	} else if !b.lines[late] {
		t.Errorf("got %+v, want the late one to count", out)
	} else if b.lines[invented] {
		t.Errorf("got %+v, want the invented one not to count", out)
	}
}

// Sums that have moved only just now may still move, because usage is on its way.
func TestNothingIsHeldOutBeforeTheSumsHaveStood(t *testing.T) {
	l, b := &ledger{}, newBook(ids.RequestID{15: 1})
	f := &Filler{Ledger: l, Store: b, After: 2 * time.Minute}
	for i, want := range []int{0, 0, 1} {
		at := now.Add(time.Duration(i) * time.Minute)
		f.Differ(differs(slot(yesterday, 1), 1, 0), at)
		if out, err := f.Pass(t.Context(), at); err != nil {
			t.Errorf("after %d minutes: got the error %v, want none", i, err)
		} else if len(out.Excluded) != want {
			t.Errorf("after %d minutes: got %v held out, want %d", i, out.Excluded, want)
		}
	}
}

// A day that has not come yet has no requests.
func TestALineOfADayThatIsFarAheadIsHeldOut(t *testing.T) {
	b := newBook(ids.RequestID{15: 1})
	f := &Filler{Ledger: &ledger{}, Store: b}
	f.Differ(differs(slot(today.Add(day), 1), 1, 0), now)
	if out, err := f.Pass(t.Context(), now); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(out.Excluded) != 0 {
		t.Errorf("tomorrow: len(out.Excluded): got %d, want 0, in %v", len(out.Excluded), out.Excluded)
	}
	f.Differ(differs(slot(today.Add(30*day), 1), 1, 0), now)
	if out, err := f.Pass(t.Context(), now); err != nil {
		t.Errorf("next month: got the error %v, want none", err)
	} else if len(out.Excluded) != 1 {
		t.Errorf("next month: got %v held out, want the line", out.Excluded)
	}
}

func TestWhatIsSettledWhileTheBookIsAwayIsNotHeldOut(t *testing.T) {
	l, b := &ledger{lines: requests(2)}, newBook(ids.RequestID{15: 1}, ids.RequestID{15: 2}, ids.RequestID{15: 3},
		ids.RequestID{15: 9})
	b.fails = true
	f := &Filler{Ledger: l, Store: b}
	f.Differ(differs(slot(yesterday, 1), 4, 2), now)
	if _, err := f.Pass(t.Context(), now); err == nil {
		t.Fatal("got no error of a book that is away")
	}
	l.lines, b.fails = requests(3), false
	out, err := f.Pass(t.Context(), now)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !slices.Equal(out.Excluded, []ids.RequestID{{15: 9}}) {
		t.Errorf("got %v held out, want only the one that the ledger still does not have", out.Excluded)
	}
}

func TestMoreLinesThanOneWalkHoldsAreLookedForInParts(t *testing.T) {
	l, b := &ledger{lines: requests(5)}, newBook()
	for i := range 8 {
		b.lines[ids.RequestID{15: byte(i + 1)}] = true
	}
	f := &Filler{Ledger: l, Store: b, limit: 3}
	f.Differ(differs(slot(yesterday, 1), 8, 5), now)
	var held []ids.RequestID
	for range 4 {
		out, err := f.Pass(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, out.Excluded...)
	}
	if want := []ids.RequestID{{15: 6}, {15: 7}, {15: 8}}; !slices.Equal(held, want) {
		t.Errorf("got %v held out, want %v", held, want)
	} else if f.walk != nil {
		t.Errorf("got the walk %+v, want none", f.walk)
	}
}
